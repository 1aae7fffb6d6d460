"""PyTorch's, which its compiler fuses: logits in 16 bits and their gradient, each read and written once."""

from planner.techniques.losses.family import Loss

ENTRY = Loss(
    name="compiled",
    cite="torchtitan 0.2.2: torchtitan/components/loss.py, torch.compile of cross_entropy_loss",
    logit_bytes=6.0,
    traffic=6.0,
    split_bytes=4.0,
)
