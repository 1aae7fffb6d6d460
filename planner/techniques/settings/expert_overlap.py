"""Messages to and from experts beside the passes of another micro-batch."""

from planner.techniques.settings.family import Setting, with_experts

ENTRY = Setting(
    name="expert_overlap",
    about="whether messages to and from experts run beside the passes of another micro-batch, weight "
    "gradients delayed for them",
    cite="https://github.com/NVIDIA/Megatron-LM/tree/d98e8a64ddf34856e74b24714e3bedb2f5a39553, "
    "core/transformer/transformer_config.py, overlap_moe_expert_parallel_comm and delay_wgrad_compute",
    values={"off": {"overlaps_experts": False}, "on": {"overlaps_experts": True}},
    matters=with_experts,
    aliases=("delay_wgrad_compute",),
    scanned=("on",),
    evidence={"on": "the ablation of a DeepSeek-V3 recipe (0.85 times the step), recipes of 26.06"},
)
