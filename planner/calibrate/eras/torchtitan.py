"""torchtitan, whose FSDP2, compiler and recompute changed from year to year."""

from __future__ import annotations

from typing import Final

from planner.calibrate.eras._era import Era, Settings

# torchtitan/distributed/fsdp.py: reshard_after_forward is by default true without a pipeline, false with one.
KEPT: Final = "2"
"""ZeRO stage of weights that stay gathered until backward."""

TENSORWISE: Final[Settings] = {"float8_scales": "tensor"}
"""The recipe of float8 of runs that name none: the only one until 2025, and the default until 0.2.2."""

WHOLE_LOSS: Final[Settings] = {"loss_chunks": 1.0}
"""Releases to 0.2.2 have no loss in parts."""

TORCHTITAN_2024: Final = Era(
    "torchtitan-2024",
    r"torchtitan.*(2024|fsdp2)|^torchtitan$",
    "torchtitan",
    "FSDP2, recompute that stops early, a norm of one kernel, and nothing compiled unless the row says "
    "so, then all but the loss, as of 2024 (1ea476e9, train_configs: compile = false, fused_rmsnorm)",
    traits={
        **TENSORWISE,
        **WHOLE_LOSS,
        "attention": "flash-2",
        "compiled": False,
        "fused_activation": False,
        "fused_rope": False,
        "hidden_collective_traffic": 3.0,
        "early_stop": True,
        "logit_bytes": 12.0,
        "loss_beside_backward": True,
    },
    zero="3",
    pipeline_zero=KEPT,
    selective="selective:per-op",
    compiles_loss=False,
)

TORCHTITAN_2025: Final = Era(
    "torchtitan-2025",
    r"torchtitan.*(2025|\b0\.2\.[01]\b)",
    "torchtitan",
    "the same with a compiled loss, as of 2025",
    traits={
        **TENSORWISE,
        **WHOLE_LOSS,
        "attention": "flash-2",
        "hidden_collective_traffic": 3.0,
        "early_stop": True,
        "reserve_share": 0.02,
    },
    zero="3",
    pipeline_zero=KEPT,
    selective="selective:per-op",
)

TORCHTITAN_022: Final = Era(
    "torchtitan-0.2.2",
    r"torchtitan.*\b0\.2\.2\b",
    "torchtitan",
    "0.2.2: recompute runs whole layers again, the loss is whole",
    traits={
        **TENSORWISE,
        **WHOLE_LOSS,
        "attention": "flash-2",
        "hidden_collective_traffic": 3.0,
        "early_stop": False,
    },
    zero="3",
    pipeline_zero=KEPT,
    recompute="selective",
    selective="selective:per-op",
    measured=False,
)

TORCHTITAN: Final = Era(
    "torchtitan",
    r"torchtitan",
    "torchtitan",
    "today's torchtitan: recompute runs whole layers again, the loss comes in eight parts",
    traits={
        **TENSORWISE,
        "attention": "flash-2",
        "hidden_collective_traffic": 3.0,
        "early_stop": False,
        "loss_chunks": 8.0,
    },
    zero="3",
    pipeline_zero=KEPT,
    recompute="selective",
    selective="selective:per-op",
)
