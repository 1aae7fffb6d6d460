"""Models that see images on Megatron-Bridge: the library's own encoder on the first stage, and its data.

Read in Megatron-Bridge 067f987d: ``models/qwen_vl/qwen25_vl_provider.py`` and ``modeling_qwen25_vl.py`` (the
encoder is that of transformers, whole on every tensor-parallel rank of the first stage, in the precision of
the weights), ``recipes/qwen_vl``, ``data/builders/direct_hf_sft.py`` and ``mock_vlm_sft.py``.
"""

from __future__ import annotations

from math import isqrt
from typing import Final

from planner.inputs.encoder import Encoder
from planner.inputs.model import ModelSpec
from planner.inputs.vision_configs import patch_side, vision_config, vision_family
from planner.plan import Plan
from planner.rules import Rule
from planner.runtimes._family import Job
from planner.runtimes._idle import Idle, TrainingTask
from planner.runtimes.megatron_bridge.code import Code, Section, setting

FAMILIES: Final = ("qwen2_5_vl",)
"""Model types whose encoder the files can build."""

MODULE: Final = ("qwen_vl.qwen25_vl_provider", "Qwen25VLModelProvider")

IMPORTS: Final = """\
from megatron.bridge.data.builders.direct_hf_sft import DirectHFSFTDatasetConfig
from megatron.bridge.data.builders.mock_vlm_sft import MockVLMSFTDatasetConfig
from megatron.bridge.data.sources.hf import HFDatasetSourceConfig
from transformers.models.qwen2_5_vl.configuration_qwen2_5_vl import Qwen2_5_VLVisionConfig
"""

SECTIONS: Final = (16, 24, 24)
"""Pairs of a head's channels that turn by time, height and width. [-]"""


def sees(model: ModelSpec) -> bool:
    """Whether a model has an encoder that the files can build."""
    return model.encoder is not None and vision_family(model.encoder, model.hidden) in FAMILIES


def _turned_in_parts(plan: Plan, job: TrainingTask) -> bool:
    return sees(job.model)


UNFUSED: Final = Idle("fused_rope", False, _turned_in_parts, "positions of images turn in three parts")
"""No fused kernel turns batches of these (Megatron-LM d98e8a64, ``common/embeddings/rope_utils.py``)."""


def _encoder(job: Job) -> Encoder:
    if job.model.encoder is None:
        raise AssertionError("a model without an encoder")
    return job.model.encoder


def vision_fields(job: Job) -> Section:
    """Return the fields of the model provider that are about images; nothing without an encoder."""
    if not sees(job.model):
        return {}
    said = vision_config(_encoder(job), FAMILIES[0])
    fields = ", ".join(f"{name}={value!r}" for name, value in said.items())
    return {
        "position_embedding_type": "mrope",
        "mrope_section": [*SECTIONS],
        "scatter_embedding_sequence_parallel": False,
        "apply_rope_fusion": False,
        "vision_config": Code(f"Qwen2_5_VLVisionConfig({fields})"),
        "freeze_vision_model": job.workload.freeze_encoder,
        "freeze_vision_projection": job.workload.freeze_encoder,
    }


def data_section(job: Job) -> Section:
    """Return the fields of DirectHFSFTDatasetConfig: conversations, each as long as the plan's."""
    return {
        "seq_length": job.workload.seq_len,
        "source": Code("HFDatasetSourceConfig(path_or_dataset=DATA_PATH)"),
        "hf_processor_path": Code("TOKENIZER_PATH"),
        "dataloader_type": "cyclic",
        "pad_to_max_length": True,
    }


def made_up_images(job: Job) -> Section:
    """Return the fields of MockVLMSFTDatasetConfig: as many images as the plan has, and as large."""
    encoder = _encoder(job)
    side = isqrt(encoder.patches) * patch_side(encoder)
    return {
        "seq_length": job.workload.seq_len,
        "hf_processor_path": Code("TOKENIZER_PATH"),
        "random_seed": setting("SEED"),
        "image_size": (side, side),
        "num_images": job.workload.images,
        "pad_to_max_length": True,
    }


def vision_rules(plan: Plan, job: Job) -> list[Rule]:
    """Return the rules of a model whose encoder is the library's own."""
    if not sees(job.model):
        return []
    patches, widths = _encoder(job).patches, {mixer.qk_head_dim for mixer in job.model.attentions}
    work = job.workload
    return [
        Rule(
            "vision-in-16-bit",
            work.precision == "bf16",
            lambda: (f"precision {work.precision}", "bf16: nothing quantises the library's encoder", "bf16"),
        ),
        Rule(
            "vision-without-fsdp",
            plan.zero < 2,
            lambda: (
                f"zero {plan.zero} with an encoder",
                "zero 0 or 1: Megatron-FSDP is not written",
                "zero 1",
            ),
        ),
        Rule(
            "vision-trains-whole",
            work.method == "full",
            lambda: (
                f"method {work.method} with an encoder",
                "full: no adapters are written beside it",
                "full",
            ),
        ),
        Rule(
            "vision-turns-heads",
            widths == {2 * sum(SECTIONS)},
            lambda: (
                f"heads of {sorted(widths)}",
                f"heads of {2 * sum(SECTIONS)}, as Qwen2.5-VL has",
                "another",
            ),
        ),
        Rule(
            "vision-images-square",
            isqrt(patches) ** 2 == patches,
            lambda: (
                f"images of {patches} patches",
                "as many as a square image has",
                f"{isqrt(patches) ** 2}",
            ),
        ),
    ]


NOTES: Final = (
    "DATA_PATH is the name or folder of a data set of conversations with images, TOKENIZER_PATH that of the "
    "model with its processor, which a smoke run needs too. Sequences are padded to the plan's length; other "
    "images than the plan's, by size or number, take more or less time than priced.",
)
