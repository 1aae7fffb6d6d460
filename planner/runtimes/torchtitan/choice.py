"""What files for torchtitan say beside a plan's degrees."""

from __future__ import annotations

from typing import Final

from planner.dataclasses import dataclass
from planner.runtimes.family import StepLine


@dataclass(frozen=True)
class TitanChoice:
    """Switches of a run."""

    compiled: bool
    """Whether layers are compiled."""
    async_tp: bool = False
    """Whether tensor-parallel messages go in pieces beside their products."""
    float8_scales: str = "rows"
    """``rows`` or ``tensor``, where the precision is fp8."""
    loss_chunks: int = 1
    """Parts of a micro-batch at head and loss."""


DEFAULT_CHUNKS: Final = 8.0
"""Parts of a micro-batch at head and loss in every configuration of the newest release (models/*/
config_registry.py), and the default of ``ChunkedLossWrapper``; releases to 0.2.2 have the loss whole. [-]"""

RECIPES: Final = {"rows": "rowwise", "tensor": "tensorwise"}
"""torchao's names of recipes."""

STEP_LINE: Final = StepLine(r"tps: ([0-9,]+)", option="--tokens-per-s-per-gpu")
"""Where the log says tokens per second and device (``components/metrics.py``)."""

WHERE_SET: Final = {
    "TENSORBOARD_DIR": ("--metrics.enable_tensorboard", "--metrics.save_tb_folder", "${TENSORBOARD_DIR}"),
    "WANDB_PROJECT": ("--metrics.enable_wandb",),
}
"""Arguments of a real run where the user sets a variable; torchtitan reads WANDB_PROJECT by itself."""
