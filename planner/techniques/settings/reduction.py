"""The dtype in which gradients that stay in fp32 travel."""

from planner.techniques.settings.family import Setting

ENTRY = Setting(
    name="reduction",
    aliases=("mp_reduce",),
    about="dtype in which gradients are reduced, whatever they are kept in (reduce_dtype of PyTorch's "
    "MixedPrecisionPolicy)",
    cite="PyTorch 2.13, torch/distributed/fsdp/_fully_shard/_fsdp_api.py, MixedPrecisionPolicy",
    values={"fp32": {"reduce_dtype": "fp32"}, "bf16": {"reduce_dtype": "bf16"}},
    numerics=True,
    evidence={"bf16": "llm-foundry's MPT runs, both of whose modes reduce so, on A100"},
)
