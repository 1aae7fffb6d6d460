"""GPT-OSS on torchtitan: attention with sinks and biases in all layers, windows in some, biased experts.

Read in torchtitan b5bcd76c, ``torchtitan/models/gpt_oss``.
"""

from __future__ import annotations

from typing import Final

from planner.inputs.model import Attention, Block, Experts, ModelSpec
from planner.inputs.numerics import RopeScaling
from planner.plan import Plan
from planner.rules import Rule
from planner.runtimes.family import Job
from planner.runtimes.offered import exactly

FAMILY: Final = "gpt_oss"

BUILDABLE: Final = frozenset({
    "query/key/value biases", "an output bias", "feed-forward biases", "attention sinks", "sliding windows",
})  # fmt: skip
"""Parts that its model has and the others have not."""

IMPORTS: Final = """from torchtitan.models.common.attention import FusedQKVLinear
from torchtitan.models.common.config_utils import make_token_dispatcher_config
from torchtitan.models.common.linear import ScaledBiasRowwiseLinear
from torchtitan.models.common.moe import RoutedExperts, TokenChoiceTopKRouter
from torchtitan.models.gpt_oss import parallelize_gptoss as parallelize
from torchtitan.models.gpt_oss.model import Attention
from torchtitan.models.gpt_oss.model import GptOssModel as Model, GptOssTransformerBlock as Block
from torchtitan.models.gpt_oss.moe import GptOssGroupedExperts, GptOssMoE
from torchtitan.models.gpt_oss.state_dict_adapter import GptOssStateDictAdapter as Adapter
"""

LAYERS: Final = """


def product(inputs, outputs, kind=Linear):
    return kind.Config(in_features=inputs, out_features=outputs, bias=True, param_init=LINEAR)


def sinking(block):
    width, heads, groups = block["head_dim"], block["n_heads"], block["n_kv_heads"]
    return Attention.Config(
        dim=MODEL["dim"],
        n_heads=heads,
        n_kv_heads=groups,
        head_dim=width,
        qkv_linear=FusedQKVLinear.Config(
            head_dim=width,
            n_heads=heads,
            n_kv_heads=groups,
            wqkv=product(MODEL["dim"], (heads + 2 * groups) * width),
        ),
        wo=product(heads * width, MODEL["dim"], ScaledBiasRowwiseLinear),
        sliding_window_size=block["window"],
        inner_attention=get_attention_config("flex"),
        param_init={"sinks": LINEAR["weight"]},
        rope=CosSinRoPE.Config(
            dim=width, max_context_length=MODEL["max_context_length"], **MODEL["rope"]
        ),
    )


def biased_experts(block):
    count, topk = block["num_experts"], block["top_k"]
    names = ("mlp1_weight_EGD", "mlp1_bias_EG", "mlp2_weight_EDF", "mlp2_bias_ED")
    return GptOssMoE.Config(
        num_experts=count,
        router=TokenChoiceTopKRouter.Config(
            num_experts=count, gate=product(MODEL["dim"], count), top_k=topk, **MODEL["router"]
        ),
        routed_experts=RoutedExperts.Config(
            inner_experts=GptOssGroupedExperts.Config(
                dim=MODEL["dim"],
                hidden_dim=block["moe_hidden_dim"],
                num_experts=count,
                param_init={name: LINEAR["weight"] for name in names},
            ),
            token_dispatcher=make_token_dispatcher_config(
                num_experts=count,
                top_k=topk,
                comm_backend="standard",
                non_blocking_capacity_factor=None,
                hidden_dim=MODEL["dim"],
            ),
        ),
    )


def layers():
    return [
        Block.Config(
            attention=sinking(block),
            attention_norm=norm(MODEL["dim"]),
            ffn_norm=norm(MODEL["dim"]),
            moe=biased_experts(block),
        )
        for count, block in MODEL["runs"]
        for _ in range(count)
    ]
"""


def _sinks(block: Block) -> bool:
    mixer, ffn = block.mixer, block.ffn
    if not isinstance(mixer, Attention) or not isinstance(ffn, Experts):
        return False
    attends = mixer.sinks and mixer.qkv_bias and mixer.output_bias and mixer.key_bias
    plain = mixer.qk_norm == "none" and mixer.rotary and block.norms == 2
    return attends and plain and ffn.bias and ffn.router_bias and not ffn.shared_inner


def is_sinking(model: ModelSpec) -> bool:
    """Whether all layers are GPT-OSS's in kind, with windows of one size."""
    blocks = [model.blocks[name] for name in dict.fromkeys(model.layers)]
    windows = {block.attention.window for block in blocks if block.attention} - {None}
    return all(_sinks(block) for block in blocks) and len(windows) <= 1


def stretches(scaling: RopeScaling) -> bool:
    """Whether its positions stretch so: YaRN, with a scale of attention that follows from the factor."""
    told = (scaling.attention_factor, scaling.mscale, scaling.mscale_all_dim)
    return scaling.kind == "yarn" and (scaling.factor or 1.0) > 1.0 and told == (None, None, None)


def sinking_rules(plan: Plan, job: Job) -> list[Rule]:
    """Return the rules of a model that is GPT-OSS's in kind: whole sequences, and products in 16 bit."""
    if not is_sinking(job.model):
        return []
    precision = job.workload.precision
    why = "gradients of attention sinks over parts of a sequence were not read"
    return [
        exactly("sinks-see-whole-sequences", "cp", plan.cp, 1.0, why),
        Rule(
            "sinking-in-16-bit",
            precision == "bf16",
            lambda: (
                f"precision {precision} with experts of GPT-OSS",
                "bf16: no converter is written",
                "bf16",
            ),
        ),
    ]
