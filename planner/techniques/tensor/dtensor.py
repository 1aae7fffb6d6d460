"""PyTorch's DTensor: gathered inputs are kept whole, and small reductions of its own are sent."""

from planner.techniques.tensor.family import TensorLibrary

ENTRY = TensorLibrary(
    name="dtensor",
    cite="PyTorch 2.13: torch/distributed/tensor/parallel/style.py; torchao: "
    "float8/float8_tensor_parallel.py",
    regathers=False,
    told_reductions=True,
)
