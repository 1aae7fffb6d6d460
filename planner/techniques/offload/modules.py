"""Inputs of some modules of every layer: down once a module has run, up before its backward."""

from planner.techniques.offload.family import Offload

ENTRY = Offload(
    name="modules",
    cite="https://github.com/NVIDIA/Megatron-LM/blob/d98e8a64/docs/user-guide/features/"
    "fine_grained_activation_offloading.md",
    states="device",
    down_bytes=0.0,
    up_bytes=0.0,
    searched=False,
    named=("attn_norm", "qkv_linear", "core_attn", "attn_proj", "mlp_norm", "expert_fc1", "moe_act"),
)
