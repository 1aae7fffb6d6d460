"""XLA's: casts of logits and their gradient are fused into the products, and logits stay in 16 bits."""

from planner.techniques.losses.family import Loss

ENTRY = Loss(
    name="xla",
    cite="https://github.com/openxla/xla, xla/service/instruction_fusion.h; "
    "MaxText 02df1543: MaxText/train.py",
    logit_bytes=2.0,
    traffic=6.0,
)
