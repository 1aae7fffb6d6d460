"""PyTorch's on logits that stay in 16 bits: they, their gradient and their logarithms."""

from planner.techniques.losses.family import Loss

ENTRY = Loss(
    name="sixteen-bit",
    cite="https://github.com/NVIDIA-NeMo/Automodel, components/loss/masked_ce.py, fp32_upcast: false",
    logit_bytes=6.0,
    traffic=12.0,
)
