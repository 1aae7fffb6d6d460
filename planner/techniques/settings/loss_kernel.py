"""Whose kernel computes the loss over the vocabulary."""

from __future__ import annotations

from planner.techniques.settings.family import Setting, always

# Megatron-core's own, which is compiled, keeps logits in 16 bits, a copy in fp32 and another of their powers
# (megatron/core/fusions/fused_cross_entropy.py): 2 + 4 + 4 bytes. Transformer Engine's (v2.9,
# pytorch/cross_entropy.py) writes the gradient over the 16-bit logits; one copy is allowed for. It reads
# twice, writes once and scales the gradient: 6 + 4 bytes of traffic.
ENTRY = Setting(
    name="loss_kernel",
    about="whose kernel computes the loss: the framework's own, or Transformer Engine's, which writes the "
    "gradient over the logits",
    cite="https://github.com/NVIDIA/TransformerEngine/blob/v2.9/transformer_engine/pytorch/cross_entropy.py",
    values={
        "native": {"logit_bytes": 10.0, "loss_traffic": 36.0},
        "te": {"logit_bytes": 4.0, "loss_traffic": 10.0},
    },
    matters=always,
    evidence={"te": "recipes of Megatron-Bridge, which have it, beside those of NeMo 2024, which do not"},
)
