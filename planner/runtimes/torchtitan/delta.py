"""Qwen3.5 on torchtitan: gated delta nets beside gated attention, dense or with experts.

Read in torchtitan b5bcd76c, ``torchtitan/models/qwen3_5``. Its class holds an encoder of images too, which
the files of a language model alone leave out; ``vision.py`` has it.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Final

import numpy as np

from planner.inputs.mixers.gated_delta import GatedDelta
from planner.inputs.model import Attention, Block, Experts, ModelSpec
from planner.plan import Plan
from planner.rules import Rule
from planner.runtimes.family import Job
from planner.runtimes.offered import exactly
from planner.runtimes.torchtitan.schedules import SCHEDULES

FAMILY: Final = "qwen3_5"

SPLITTING: Final = tuple(name for name, one in SCHEDULES.items() if one.splits_backward)
"""Schedules that ask for the weight gradient apart."""

BUILDABLE: Final = frozenset({"gated-delta layers", "an output gate on attention", "gates on shared experts"})
"""Parts that its model has and the others have not."""

EAGER: Final = MappingProxyType(
    {
        "compiled": False,
        "fused_norm": False,
        "norms": "fp32-weighed",
        "fused_activation": False,
        "fused_rope": False,
        "rotary_chain": "halves",
        "experts": "weighed-apart",
    }
)
"""Its layers are not compiled: flash-linear-attention's kernel is closed to the compiler, and a layer is
compiled whole or not (``distributed/compile.py``, ``fullgraph=True``). Norms multiply by weights in fp32.
What experts make is multiplied by scores in fp32 (``models/common/token_dispatcher.py``, ``combine``)."""

IMPORTS: Final = """from dataclasses import field

from torchtitan.models.common import Conv1d, SigmoidGatedFeedForward
from torchtitan.models.common.decoder import Decoder
from torchtitan.models.qwen3_5 import _qwen35_vision_encoder_config as encoder
from torchtitan.models.qwen3_5 import parallelize_qwen3_5 as parallelize
from torchtitan.models.qwen3_5.gdn import (
    GatedDeltaKernel,
    GatedDeltaNet,
    InnerGatedDeltaNet,
    RMSNormGated,
)
from torchtitan.models.qwen3_5.model import (
    OffsetRMSNorm,
    Qwen35Attention,
    Qwen35Model,
    Qwen35TransformerBlock as Block,
)
from torchtitan.models.qwen3_5.rope import MRoPE
from torchtitan.models.qwen3_5.state_dict_adapter import Qwen35StateDictAdapter as Adapter
"""

TEXT_ALONE: Final = """


def unseen():
    \"\"\"Return the encoder of images that Qwen3.5's configs have; of this model none is built.\"\"\"
    return encoder(
        dim=64,
        ffn_dim=64,
        num_layers=1,
        num_heads=1,
        patch_size=16,
        temporal_patch_size=2,
        spatial_merge_size=2,
        out_hidden_size=MODEL["dim"],
        num_position_embeddings=4,
    )


class Model(Qwen35Model):
    \"\"\"The language model alone.\"\"\"

    @dataclass(kw_only=True, slots=True)
    class Config(Qwen35Model.Config):
        vision_encoder: object = field(default_factory=unseen)

    def __init__(self, config):
        Decoder.__init__(self, config)
        self.vision_encoder = None
"""
"""The model of text, in the place of the one that sees images too (``vision.py``)."""

LAYERS: Final = """

def norm(width):
    \"\"\"Return Qwen3.5's norm in the place of the usual one: its weights are added to one.\"\"\"
    return OffsetRMSNorm.Config(dim=width, eps=MODEL["norm_eps"], param_init={"weight": nn.init.zeros_})


def product(inputs, outputs):
    return Linear.Config(in_features=inputs, out_features=outputs, param_init=LINEAR)


def attends(block):
    dim, width, turned = MODEL["dim"], block["head_dim"], block["rotary_dim"]
    heads, groups, third = block["n_heads"], block["n_kv_heads"], block["rotary_dim"] // 6
    rope = MRoPE.Config(
        dim=turned,
        max_context_length=MODEL["max_context_length"],
        mrope_section=[turned // 2 - 2 * third, third, third],
        **MODEL["rope"],
    )
    return Qwen35Attention.Config(
        n_heads=heads,
        n_kv_heads=groups,
        head_dim=width,
        rotary_dim=turned,
        rope=rope,
        wq=product(dim, 2 * heads * width),
        wk=product(dim, groups * width),
        wv=product(dim, groups * width),
        wo=product(heads * width, dim),
        q_norm=norm(width),
        k_norm=norm(width),
        inner_attention=get_attention_config("flex"),
    )


def decays(rates):
    rates.data.uniform_(0.01, 16.0).log_()


def passes(block):
    dim, taps, heads = MODEL["dim"], block["conv_kernel"], block["n_value_heads"]
    keys, values = block["n_key_heads"] * block["key_head_dim"], heads * block["value_head_dim"]

    def convolution(channels):
        return Conv1d.Config(
            in_channels=channels,
            out_channels=channels,
            kernel_size=taps,
            groups=channels,
            padding=0,
            bias=False,
        )

    return GatedDeltaNet.Config(
        key_head_dim=block["key_head_dim"],
        value_head_dim=block["value_head_dim"],
        conv_kernel_size=taps,
        in_proj_q=product(dim, keys),
        in_proj_k=product(dim, keys),
        in_proj_v=product(dim, values),
        in_proj_z=product(dim, values),
        in_proj_a=product(dim, heads),
        in_proj_b=product(dim, heads),
        conv_q=convolution(keys),
        conv_k=convolution(keys),
        conv_v=convolution(values),
        inner_gated_delta_net=InnerGatedDeltaNet.Config(kernel=GatedDeltaKernel.Config()),
        norm=RMSNormGated.Config(
            dim=block["value_head_dim"], eps=MODEL["norm_eps"], param_init={"weight": nn.init.ones_}
        ),
        out_proj=product(values, dim),
        param_init={"A_log": decays, "dt_bias": nn.init.ones_},
    )


def sparse(block):
    plain = experts(block)
    if plain.shared_experts is None:
        return plain
    own = plain.shared_experts
    plain.shared_experts = SigmoidGatedFeedForward.Config(
        w1=own.w1, w2=own.w2, w3=own.w3, gate=product(MODEL["dim"], 1)
    )
    return plain


def layers():
    return [
        Block.Config(
            attention=attends(block) if "n_heads" in block else None,
            delta_net=None if "n_heads" in block else passes(block),
            feed_forward=feed_forward(block["hidden_dim"]) if "hidden_dim" in block else None,
            moe=None if "hidden_dim" in block else sparse(block),
            attention_norm=norm(MODEL["dim"]),
            ffn_norm=norm(MODEL["dim"]),
        )
        for count, block in MODEL["runs"]
        for _ in range(count)
    ]
"""


NOTE: Final = (
    "Install flash-linear-attention, av and torchvision, which Qwen3.5's modules import. Layers are not "
    "compiled."
)
UNSEEN: Final = "The encoder of images is left out: the files train the language model on text."
"""For the run card."""


def _mixes(block: Block) -> bool:
    """Whether a block has Qwen3.5's attention or a gated delta net, and a feed-forward of its kind."""
    mixer, ffn = block.mixer, block.ffn
    if isinstance(mixer, Attention):
        attends = mixer.output_gate and mixer.qk_norm == "head" and not mixer.head_gate
    else:
        attends = isinstance(mixer, GatedDelta)
    gated = not isinstance(ffn, Experts) or bool(ffn.shared_gate) == bool(ffn.shared_inner)
    return attends and ffn is not None and gated


def is_delta(model: ModelSpec) -> bool:
    """Whether a model is Qwen3.5's in kind: gated delta nets in some layers, gated attention in others."""
    nets = any(isinstance(mixer, GatedDelta) for mixer in model.recurrents)
    return nets and all(_mixes(model.blocks[name]) for name in dict.fromkeys(model.layers))


def mixer_data(model: ModelSpec, mixer: Attention | GatedDelta) -> dict[str, object]:
    """Return the sizes of a mixer."""
    if isinstance(mixer, GatedDelta):
        return {
            "n_key_heads": mixer.key_heads,
            "n_value_heads": mixer.value_heads,
            "key_head_dim": mixer.key_head_dim,
            "value_head_dim": mixer.head_dim,
            "conv_kernel": mixer.conv_kernel,
        }
    turned = round(mixer.head_dim * (model.numerics.rope_fraction or 1.0))
    return {
        "n_heads": mixer.heads,
        "n_kv_heads": mixer.kv_heads,
        "head_dim": mixer.head_dim,
        "rotary_dim": turned,
    }


def delta_traits(model: ModelSpec) -> dict[str, Any]:
    """Return what torchtitan's code of such a model does that others' does not, by flat name of traits."""
    return dict(EAGER) if is_delta(model) else {}


def uncompiled_rules(job: Job, compiled: bool) -> list[Rule]:
    """Return the rule that layers of such a model are not compiled."""
    if not is_delta(job.model):
        return []
    return [
        Rule(
            "delta-uncompiled",
            not compiled,
            lambda: (
                "compiled layers with gated delta nets",
                "layers as they are: the compiler does not take their kernel",
                "--set compiled=false",
            ),
        )
    ]


def delta_rules(plan: Plan, job: Job) -> list[Rule]:
    """Return the rules of such a model: whole sequences, products in 16 bit, layers recomputed whole.

    References
    ----------
    .. [1] torchtitan b5bcd76c, ``models/qwen3_5/parallelize.py``: "Context Parallel is not yet supported."
    """
    if not is_delta(job.model):
        return []
    precision = job.workload.precision
    return [
        exactly("delta-sees-whole-sequences", "cp", plan.cp, 1.0, "parallelize_qwen3_5 refuses another"),
        Rule(
            "delta-in-16-bit",
            precision == "bf16",
            lambda: (f"precision {precision} with gated delta nets", "bf16: no converter is written", "bf16"),
        ),
        Rule(
            "delta-backward-whole",
            np.equal(plan.pp, 1) | (plan.schedule not in SPLITTING),
            lambda: (
                f"schedule {plan.schedule} with gated delta nets",
                "one whose backward is whole: their kernel gives all gradients at once",
                "schedule 1f1b",
            ),
        ),
        Rule(
            "delta-recomputed-whole",
            plan.recompute != "selective",
            lambda: (
                "recompute selective with gated delta nets",
                "none or full: which of their products are kept has no price",
                "full",
            ),
        ),
    ]
