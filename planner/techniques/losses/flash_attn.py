"""flash-attn's kernel: logits in 16 bits, read for the loss and again for the gradient in their place."""

from planner.techniques.losses.family import Loss

ENTRY = Loss(
    name="flash-attn",
    cite="https://github.com/Dao-AILab/flash-attention, flash_attn/losses/cross_entropy.py",
    logit_bytes=6.0,
    traffic=12.0,
)
