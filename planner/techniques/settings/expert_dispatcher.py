"""Who sends tokens to their experts."""

from __future__ import annotations

from planner.techniques.settings.family import Setting, with_experts

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
