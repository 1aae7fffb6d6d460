"""Whose kernel computes the loss over the vocabulary."""

from planner.techniques.settings.family import Setting

# Megatron-core's own, which is compiled, keeps logits in 16 bits, a copy in fp32 and another of their powers
# (megatron/core/fusions/fused_cross_entropy.py): 2 + 4 + 4 bytes. Transformer Engine has a gradient in fp32
# beside 16-bit logits since release 2.18 (01bbe3ee, pytorch/triton/cross_entropy.py): 2 + 4 bytes. Before, it
# was written over the logits (v2.9, pytorch/cross_entropy.py): two reads, a write and a product with the
# gradient from above, 6 + 4 bytes of traffic, with which all are priced.
ENTRY = Setting(
    name="loss_kernel",
    about="whose kernel computes the loss: the framework's own, or Transformer Engine's, which keeps no "
    "more than the logits and their gradient",
    cite="https://github.com/NVIDIA/TransformerEngine/blob/v2.9/transformer_engine/pytorch/cross_entropy.py",
    values={
        "native": {"logit_bytes": 10.0, "loss_traffic": 36.0},
        "te": {"logit_bytes": 6.0, "loss_traffic": 10.0},
    },
    evidence={"te": "recipes of Megatron-Bridge, which have it, beside those of NeMo 2024, which do not"},
)
