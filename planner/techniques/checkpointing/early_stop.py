"""A layer runs again until all that backward needs of it is there: PyTorch's, where it is not reentrant."""

from planner.techniques.checkpointing.family import Checkpointing

ENTRY = Checkpointing(
    name="early-stop",
    cite="PyTorch 2.13: torch/utils/checkpoint.py, set_checkpoint_early_stop",
    stops_early=True,
)
