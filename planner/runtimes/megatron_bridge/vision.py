"""Models that see images on Megatron-Bridge: the library's own encoder on the first stage, and its data.

Read in Megatron-Bridge 067f987d: ``models/qwen_vl/qwen25_vl_provider.py`` and ``modeling_qwen25_vl.py`` (the
encoder is that of transformers, whole on every tensor-parallel rank of the first stage, in the precision of
the weights), ``qwen3_vl_provider.py``, ``qwen35_vl_provider.py`` and ``modelling_qwen3_vl`` (an encoder of
Megatron-core's layers),
``recipes/qwen_vl``, ``data/builders/direct_hf_sft.py`` and ``mock_vlm_sft.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isqrt
from typing import Any, Final, NamedTuple

import numpy as np

from planner.deferred import deferred
from planner.inputs.encoder import Encoder
from planner.inputs.mixers.gated_delta import GatedDelta
from planner.inputs.model import ModelSpec
from planner.inputs.variants import Variant
from planner.plan import Plan
from planner.rules import Rule
from planner.runtimes.family import Job
from planner.runtimes.idle import Idle, TrainingTask
from planner.runtimes.megatron_bridge.code import Code, Section, setting

with deferred():
    from planner.inputs import vision_configs


class Seen(NamedTuple):
    """How the library builds a model that sees: its providers, its encoder's config, its step."""

    module: str
    provider: str
    sparse: str
    """Module of the model's class, and the class, of a dense model and of one with experts."""
    config: str
    """Class of the encoder's config in transformers."""
    sections: tuple[int, ...]
    """Pairs of a head's channels that turn by time, height and width; none where tokens turn by place. [-]"""
    step: str
    """Module of the forward step."""
    split: bool
    """Whether the encoder is Megatron-core's own, split over tensor-parallel ranks as the layers are."""
    virtual: bool = False
    """Whether such a model is told its virtual stage."""
    whole: Callable[[ModelSpec, str], str] | None = None
    """The whole model's config, of the model and the encoder's config, where the provider takes that."""


GROWN: Final[Variant] = "scaled-queries"
"""What a model has whose queries grow with their position."""

GROWTH: Final = 0.1
"""How much queries grow with the logarithm of their position, in all checkpoints of Ministral 3 (transformers
5.23, ``configuration_ministral3.py``)."""


def _mistral3(model: ModelSpec, encoder: str) -> str:
    """Return the config of Ministral 3: what the provider reads of its language model, and its encoder."""
    scaling = model.numerics.rope_scaling
    start = scaling.original_positions if scaling else None
    turned = {"rope_type": "yarn", "rope_theta": model.numerics.rope_theta, "llama_4_scaling_beta": GROWTH}
    turned |= {"factor": scaling.factor if scaling else 1.0, "original_max_position_embeddings": start}
    said = {
        "hidden_size": model.hidden,
        "rms_norm_eps": model.numerics.norm_epsilon,
        "rope_parameters": turned,
    }
    text = ", ".join(f"{name}={value!r}" for name, value in said.items())
    return f"Mistral3Config(vision_config={encoder}, text_config=Ministral3Config({text}))"


FAMILIES: Final[Mapping[str, Seen]] = {
    "qwen2_5_vl": Seen(
        "qwen_vl.qwen25_vl_provider", "Qwen25VLModelProvider", "", "Qwen2_5_VLVisionConfig", (16, 24, 24),
        "training.vlm_step", split=False,
    ),
    "qwen3_vl": Seen(
        "qwen_vl.qwen3_vl_provider", "Qwen3VLModelProvider", "Qwen3VLMoEModelProvider",
        "Qwen3VLVisionConfig", (24, 20, 20), "models.qwen_vl.qwen3_vl_step", split=True,
    ),
    "qwen3_5": Seen(
        "qwen_vl.qwen35_vl_provider", "Qwen35VLModelProvider", "Qwen35VLMoEModelProvider",
        "Qwen3_5VisionConfig", (11, 11, 10), "models.qwen_vl.qwen3_vl_step", split=True, virtual=True,
    ),
    "mistral3": Seen(
        "ministral3.ministral3_provider", "Ministral3ModelProvider", "", "PixtralVisionConfig", (),
        "training.vlm_step", split=False, whole=_mistral3,
    ),
}  # fmt: skip
"""Model types whose encoder the files can build."""

SPLIT: Final = tuple(name for name, seen in FAMILIES.items() if seen.split)

IMPORTS: Final = """\
from megatron.bridge.data.builders.direct_hf_sft import DirectHFSFTDatasetConfig
from megatron.bridge.data.builders.mock_vlm_sft import MockVLMSFTDatasetConfig
from megatron.bridge.data.sources.hf import HFDatasetSourceConfig
"""


WHOLE: Final = """\
from transformers.models.ministral3.configuration_ministral3 import Ministral3Config
from transformers.models.mistral3.configuration_mistral3 import Mistral3Config
from transformers.models.pixtral.configuration_pixtral import PixtralVisionConfig
"""


def family_of(model: ModelSpec) -> str:
    """Return the type of a model with an encoder that the files can build; empty of any other."""
    if model.encoder is None:
        return ""
    found = vision_configs.vision_family(model.encoder, model.hidden)
    sparse = bool(model.expert_kinds)
    if (found == "mistral3" and not _grows(model)) or (found == "qwen3_5") != _passes_states(model):
        return ""
    return found if found in FAMILIES and (FAMILIES[found].sparse or not sparse) else ""


def _passes_states(model: ModelSpec) -> bool:
    """Whether some layers are gated delta nets, as all models of Qwen3.5 have them."""
    return any(isinstance(mixer, GatedDelta) for mixer in model.recurrents)


def _grows(model: ModelSpec) -> bool:
    """Whether queries grow from the positions on that YaRN stretches, as the provider's attention does."""
    scaling = model.numerics.rope_scaling
    stretched = scaling is not None and scaling.kind == "yarn" and scaling.original_positions is not None
    return stretched and GROWN in model.variants


def sees(model: ModelSpec) -> bool:
    """Whether a model has an encoder that the files can build."""
    return bool(family_of(model))


def seen_as(model: ModelSpec) -> Seen:
    """Return how the library builds a model that `sees`."""
    return FAMILIES[family_of(model)]


def vision_traits(model: ModelSpec) -> Mapping[str, Any]:
    """Return what an encoder of Megatron-core's own does: its layers are recomputed as the others are."""
    return {"encoder_again": True} if sees(model) and seen_as(model).split else {}


def provider_of(model: ModelSpec) -> tuple[str, str]:
    """Return module and class of the model's provider."""
    seen = seen_as(model)
    return seen.module, seen.sparse if model.expert_kinds else seen.provider


def imports_of(model: ModelSpec) -> str:
    """Return what the file imports for images; nothing without an encoder."""
    if not sees(model):
        return ""
    name = family_of(model)
    if FAMILIES[name].whole is not None:
        return IMPORTS + WHOLE
    return IMPORTS + f"from transformers.models.{name}.configuration_{name} import {FAMILIES[name].config}\n"


def _turned_in_parts(plan: Plan, job: TrainingTask) -> bool:
    return sees(job.model) and bool(seen_as(job.model).sections)


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
    name, seen, work = family_of(job.model), seen_as(job.model), job.workload
    alone = work.method == "projector"
    said = vision_configs.vision_config(_encoder(job), name)
    fields = ", ".join(f"{name}={value!r}" for name, value in said.items())
    config = f"{seen.config}({fields})"
    turned: Section = {
        "position_embedding_type": "mrope",
        "mrope_section": [*seen.sections],
        "apply_rope_fusion": False,
    }
    built: Section = {"vision_config": Code(config)}
    if seen.whole is not None:
        built = {"hf_config": Code(seen.whole(job.model, config))}
    return {
        **(turned if seen.sections else {}),
        "scatter_embedding_sequence_parallel": False,
        **built,
        **({"freeze_language_model": alone} if seen.split or alone else {}),
        "freeze_vision_model": work.freeze_encoder or alone,
        "freeze_vision_projection": work.freeze_encoder and not work.projects,
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
    side = isqrt(encoder.patches) * vision_configs.patch_side(encoder)
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
        return _sparse_rules(job.model)
    turned, share = 2 * sum(seen_as(job.model).sections), job.model.numerics.rope_fraction or 1.0
    patches = _encoder(job).patches
    widths = {round(share * mixer.qk_head_dim) for mixer in job.model.attentions}
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
            work.method in ("full", "projector"),
            lambda: (
                f"method {work.method} with an encoder",
                "full, or projector: no adapters are written beside it",
                "full",
            ),
        ),
        Rule(
            "vision-turns-heads",
            widths == {turned} or not turned,
            lambda: (
                f"heads of which {sorted(widths)} turn",
                f"heads of which {turned} turn, as the library has them",
                "another",
            ),
        ),
        *(_split_rules(plan, job) if seen_as(job.model).split else ()),
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


def _sparse_rules(model: ModelSpec) -> list[Rule]:
    """Return the rule that no encoder that the files build stands before experts that they do not."""
    known = (
        model.encoder is not None and vision_configs.vision_family(model.encoder, model.hidden) in FAMILIES
    )
    return [
        Rule(
            "vision-before-dense-layers",
            not known,
            lambda: ("an encoder before other layers", "those that the library's class builds", "another"),
        )
    ]


def _split_rules(plan: Plan, job: Job) -> list[Rule]:
    """Return the rules of an encoder of Megatron-core's own.

    References
    ----------
    .. [1] Megatron-Bridge 067f987d, ``modelling_qwen3_vl``: ``get_vision_model_config`` takes recompute from
       the language model; ``Qwen3VLModel`` knows no virtual stage, and adds what inner layers hand over in
       the first layers of the first stage. ``Qwen3VLVisionTransformerBlock._checkpointed_forward`` has the
       projectors of inner layers in a layer's checkpoint, whose inputs need no gradient where it is frozen.
    """
    handed = len(_encoder(job).handed)
    learns = job.workload.projects
    frozen = job.workload.freeze_encoder or learns
    first = plan.stage_layers[0] if plan.stage_layers else np.floor(job.model.num_layers / plan.pp)
    return [
        Rule(
            "vision-not-recomputed",
            plan.recompute in ("none", "full") or frozen,
            lambda: (
                f"recompute {plan.recompute}",
                "none, or all layers: it holds for the encoder too; or a frozen encoder",
                "full",
            ),
        ),
        Rule(
            "vision-projectors-outside-recompute",
            plan.recompute != "full" or not learns or not handed,
            lambda: (
                "recompute full with projectors trained behind a frozen encoder",
                "less: those of inner layers would get no gradient",
                "none",
            ),
        ),
        Rule(
            "vision-without-virtual-stages",
            np.equal(plan.vpp, 1) | seen_as(job.model).virtual,
            lambda: (f"vpp {plan.vpp:g}", "vpp 1: the library's class knows no virtual stage", "vpp 1"),
        ),
        Rule(
            "vision-in-first-layers",
            np.greater_equal(first, handed),
            lambda: (
                f"{first:g} layers on the first stage",
                f"{handed} or more: it takes as many results",
                "pp 1",
            ),
        ),
    ]


NOTES: Final = (
    "DATA_PATH is the name or folder of a data set of conversations with images, TOKENIZER_PATH that of the "
    "model with its processor, which a smoke run needs too. Sequences are padded to the plan's length; other "
    "images than the plan's, by size or number, take more or less time than priced.",
)
