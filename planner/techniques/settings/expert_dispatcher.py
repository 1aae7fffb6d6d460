"""Who sends tokens to their experts."""

from __future__ import annotations

from planner.inputs.hardware import Pool
from planner.techniques.settings.family import Setting, with_experts


def sends_by_hybrid_ep(pool: Pool, graphed: object) -> bool:
    """Whether HybridEP's kernels send tokens and not DeepEP's: where NVLink joins nodes, and in whole graphs.

    References
    ----------
    .. [1] NVIDIA, Megatron-Bridge 067f987d, ``training/flex_dispatcher_backend.py``: DeepEP does not run
       there.
    """
    return graphed == "passes" or pool.scaleup_domain > pool.gpus_per_node


ENTRY = Setting(
    name="expert_dispatcher",
    about="who sends tokens to experts: an all-to-all of the communication library, or fused kernels "
    "(DeepEP, or HybridEP where NVLink joins nodes)",
    cite="https://arxiv.org/abs/2412.19437, sec. 3.2.2; https://github.com/deepseek-ai/DeepEP",
    values={"all-to-all": {"dispatcher": "all-to-all"}, "fused": {"dispatcher": "fused"}},
    matters=with_experts,
    evidence={"fused": "Qwen3 and DeepSeek-V3 recipes of Megatron-Bridge on H100, B200 and GB300"},
    aliases=("moe_dispatcher",),
)
