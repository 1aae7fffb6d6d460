"""Whose kernel computes the loss over the vocabulary."""

from planner.techniques.settings.family import Setting

ENTRY = Setting(
    name="loss_kernel",
    about="whose kernel computes the loss: the framework's own, or Transformer Engine's, which keeps no "
    "more than the logits and their gradient",
    cite="https://github.com/NVIDIA/TransformerEngine/blob/v2.9/transformer_engine/pytorch/cross_entropy.py",
    values={
        "native": {"loss": "vocab-parallel-fused"},
        "te": {"loss": "transformer-engine"},
    },
    evidence={"te": "recipes of Megatron-Bridge, which have it, beside those of NeMo 2024, which do not"},
)
