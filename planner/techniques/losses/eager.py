"""PyTorch's cross entropy on logits in fp32, kernel by kernel: their logarithms and two gradients."""

from planner.techniques.losses.family import Loss

ENTRY = Loss(
    name="eager",
    cite="PyTorch 2.9: aten/src/ATen/native/LossNLL.cpp, cross_entropy_loss",
    logit_bytes=12.0,
    traffic=36.0,
)
