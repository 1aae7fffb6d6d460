"""Qwen3.5 with images on torchtitan: its own encoder on the first stage, its data, and the rules of both.

Read in torchtitan b5bcd76c: ``models/qwen3_5`` (``vision_encoder.py``; ``sharding.py``: layers and merger
over tensor-parallel ranks, all rows on each of them; ``parallelize.py``: the encoder is one unit of FSDP, on
the device, and its layers are recomputed as the others are), ``distributed/pipeline_parallel.py``,
``pipeline_vlm``, and ``hf_datasets/multimodal``.
"""

from __future__ import annotations

from math import isqrt
from typing import Any, Final

from planner.deferred import deferred
from planner.inputs.encoder import Encoder
from planner.inputs.model import ModelSpec
from planner.plan import Plan
from planner.rules import Rule
from planner.runtimes.family import Job
from planner.runtimes.hub.script_masks import said
from planner.runtimes.torchtitan.delta import is_delta

with deferred():
    from planner.inputs import vision_configs

TOWER: Final = "qwen3_5"
"""The model type whose encoder the files build."""

PART: Final = "vision_encoder"
"""Its module, on the first stage."""

FIELDS: Final = {
    "hidden_size": "dim",
    "intermediate_size": "ffn_dim",
    "depth": "num_layers",
    "num_heads": "num_heads",
    "patch_size": "patch_size",
    "temporal_patch_size": "temporal_patch_size",
    "spatial_merge_size": "spatial_merge_size",
    "out_hidden_size": "out_hidden_size",
    "num_position_embeddings": "num_position_embeddings",
}
"""Words of the library's ``vision_config`` to those of torchtitan's."""

MARKS: Final = 2
"""Tokens before and after the tokens of an image. [token]"""

SPECIAL_TOKENS: Final = 5
"""Tokens of the vocabulary that stand for images, videos, their ends and padding. [token]"""


def _tower(model: ModelSpec) -> str:
    return vision_configs.vision_family(model.encoder, model.hidden) if model.encoder else ""


def sees(model: ModelSpec) -> bool:
    """Whether it is a model whose encoder the files build."""
    return is_delta(model) and _tower(model) == TOWER


def unbuilt(model: ModelSpec) -> tuple[str, ...]:
    """Return the encoder of Qwen3.5, where it stands before another language model."""
    return ("Qwen3.5's encoder before other layers",) if _tower(model) == TOWER and not sees(model) else ()


def _encoder(model: ModelSpec) -> Encoder:
    if model.encoder is None:
        raise AssertionError("a model without an encoder")
    return model.encoder


def vision_data(job: Job) -> dict[str, object]:
    """Return what the emitted module builds the encoder from, and the images of a sequence."""
    if not sees(job.model):
        return {}
    encoder = _encoder(job.model)
    config = vision_configs.vision_config(encoder, TOWER)
    fields = {word: config[name] for name, word in FIELDS.items()}
    return {"vision": {"images": job.workload.images, "patches": encoder.patches, "encoder": fields}}


def encoder_of(vision: dict[str, Any], hidden: int) -> dict[str, Any]:
    """Return the record of the encoder that ``vision`` of an emitted module describes."""
    fields = vision["encoder"]
    config = {name: fields[word] for name, word in FIELDS.items()}
    return vision_configs.encoder_record(TOWER, config, hidden, vision["patches"])


def vision_rules(plan: Plan, job: Job) -> list[Rule]:
    """Return the rules of a model whose encoder the files build.

    References
    ----------
    .. [1] torchtitan b5bcd76c, ``distributed/fsdp.py``: ``apply_fsdp_to_vision_encoder`` offloads nothing;
       no part of ``models/qwen3_5`` is left untrained.
    """
    if not sees(job.model):
        return []
    encoder, work = _encoder(job.model), job.workload
    side, merged = isqrt(encoder.patches), isqrt(encoder.merge)
    taken = work.images * (encoder.patches // encoder.merge + MARKS)
    return [
        Rule(
            "vision-is-trained",
            not work.freeze_encoder,
            lambda: ("a frozen encoder", "one that is trained: torchtitan freezes no part", "no freezing"),
        ),
        Rule(
            "vision-on-the-device",
            plan.offload == "none",
            lambda: (
                f"offload {plan.offload} with an encoder",
                "none: torchtitan offloads the language model alone",
                "--offload none",
            ),
        ),
        Rule(
            "vision-images-square",
            side**2 == encoder.patches and side % merged == 0,
            lambda: (
                f"images of {encoder.patches} patches",
                f"as many as a square image has, a multiple of {merged} along its side",
                f"{(side // merged * merged) ** 2}",
            ),
        ),
        Rule(
            "vision-images-fit",
            taken <= work.seq_len,
            lambda: (
                f"{work.images} images of {taken // work.images} tokens in {work.seq_len}",
                "sequences that hold the tokens of their images",
                f"--images {max(1, work.seq_len * work.images // taken)}",
            ),
        ),
    ]


SEEING: Final = """


class Model(Qwen35Model):
    \"\"\"The language model and its encoder of images.\"\"\"

    @dataclass(kw_only=True, slots=True)
    class Config(Qwen35Model.Config):
        vision_encoder: object = field(default_factory=lambda: encoder(**MODEL["vision"]["encoder"]))
"""
"""The model that sees images, in the place of that of text alone."""

IMPORTS: Final = """from torchtitan.components.tokenizer import MultiModalTokenizer
from torchtitan.hf_datasets.multimodal.mm_collator import MultiModalCollator
from torchtitan.hf_datasets.multimodal.mm_datasets import (
    MM_DATASETS,
    MMSamplePackingConfig,
    MultiModalProcessor,
)
from torchtitan.models.qwen3_5 import QWEN3_5_SPECIAL_TOKENS
"""

PAIRS: Final = '''VISION, PATCHES = MODEL["vision"]["encoder"], MODEL["vision"]["patches"]
CUT = {name: VISION[name] for name in ("patch_size", "temporal_patch_size", "spatial_merge_size")}
TOKENS = PATCHES // VISION["spatial_merge_size"] ** 2


def pairs():
    """Pairs of an image (jpg) and a text (txt), as CC12M has them, each image as large as the plan's."""
    points = PATCHES * VISION["patch_size"] ** 2
    known = MM_DATASETS["cc12m"].processor.sample_processor
    return MultiModalProcessor.Config(
        sample_processor=known, min_pixels=points, max_pixels=points, max_patches=PATCHES, **CUT
    )


def collator():
    return MultiModalCollator.Config(build_mrope_positions=True, max_images_per_batch=4096, **CUT)


'''

MADE_UP: Final = f"""        length, marks = self.length, MODEL["vocab_size"] - {SPECIAL_TOKENS}
        first = torch.arange(MODEL["vision"]["images"])[:, None] * (TOKENS + {MARKS}) + 1
        seen = (first + torch.arange(TOKENS)).flatten()
        seen = (torch.arange(0, self.count, length)[:, None] + seen).flatten()
        side, count = int(PATCHES**0.5), self.count // length * MODEL["vision"]["images"]
        points = 3 * VISION["temporal_patch_size"] * VISION["patch_size"] ** 2
        names = ("image", "video", "vision_start", "vision_end", "pad")
        ids = {{f"{{name}}_id": marks + place for place, name in enumerate(names)}}
        while True:
            tokens = torch.randint(marks, (self.count + 1,), generator=numbers)
            labels = tokens[1:].clone()
            tokens[seen] = ids["image_id"]
            batch = {{"input": tokens[:-1], "positions": positions.clone(), "special_tokens": ids}}
            batch["mrope_positions"] = positions[:, None].repeat(1, 3)
            batch["pixel_values"] = torch.randn(count * PATCHES, points, generator=numbers)
            batch["grid_thw"] = torch.tensor([[1, side, side]] * count)
            yield batch, labels
"""

BEFORE: Final = """        while True:
            tokens = torch.randint(MODEL["vocab_size"], (self.count + 1,), generator=numbers)
            yield {"input": tokens[:-1], "positions": positions.clone()}, tokens[1:]
"""


def with_pairs(text: str) -> str:
    """Return a module that trains on images and texts in the place of texts alone."""
    changed = {
        "    ConcatThenSplitPackingConfig,\n": "",
        "from torchtitan.hf_datasets.text_datasets import TextProcessor\n": "",
        "def one_dataset(": f"{PAIRS}def one_dataset(",
        "TextProcessor.Config()": "pairs()",
        BEFORE: MADE_UP,
        'dataset=dataset("validation"), ': 'dataset=dataset("validation"), collator=collator(), ',
        '        dataloader=GrainDataLoader.Config(dataset=dataset("train"), seed=told("SEED")),\n': (
            "        tokenizer=MultiModalTokenizer.Config(**QWEN3_5_SPECIAL_TOKENS),\n"
            "        dataloader=GrainDataLoader.Config(\n"
            '            dataset=dataset("train"), collator=collator(), seed=told("SEED")\n'
            "        ),\n"
        ),
    }
    for old, new in changed.items():
        text = said(text, old, new)
    return text.replace("ConcatThenSplitPackingConfig(", "MMSamplePackingConfig(")


NOTE: Final = (
    "DATA_PATH is a folder or the name of a data set of pairs (jpg, txt) as CC12M has them, of which as many "
    "stand in a micro-batch as fit; TOKENIZER_PATH is the model with its special tokens. Other images than "
    "the plan's, by size or number, take more or less time than priced."
)
"""For the run card."""
