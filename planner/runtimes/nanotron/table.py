"""Keys and words of nanotron that stand for one axis each: written into configs, read by ``--from``."""

from __future__ import annotations

from typing import Final

from planner.inputs.model import Attention, ModelSpec
from planner.plan import Plan

DEGREES: Final = {
    "dp": "dp",
    "pp": "pp",
    "tp": "tp",
    "cp": "context_parallel_size",
    "ep": "expert_parallel_size",
}
"""The key of each degree of a plan in the section ``parallelism``."""

ENGINES: Final = {"1f1b": "1f1b", "gpipe": "afab"}
"""``pp_engine`` of each schedule."""

MODES: Final = {False: "ALL_REDUCE", True: "REDUCE_SCATTER"}
"""``tp_mode`` without and with sequence parallelism."""


BARE: Final = "no_rope_layer"
"""Key of N where each Nth layer has no rotary positions."""


def bare_period(model: ModelSpec) -> int | None:
    """Return N where each Nth layer, and no other, has no rotary positions; else None.

    References
    ----------
    .. [1] nanotron 2411b022, models/qwen.py, ``Qwen2Attention.forward``; config/models_config.py,
       ``Qwen2Config``, which wants a divisor of the layers.
    """
    mixers = [model.blocks[name].mixer for name in model.layers]
    bare = [isinstance(mixer, Attention) and not mixer.rotary for mixer in mixers]
    period = bare.index(True) + 1 if any(bare) else 0
    own = period and bare == [layer % period == 0 for layer in range(1, len(bare) + 1)]
    return period if own and not model.learned_positions and len(bare) % period == 0 else None


def degree_keys(plan: Plan) -> dict[str, int]:
    """Return the keys of all degrees with their values, for a scalar plan."""
    return {key: int(getattr(plan, name)) for name, key in DEGREES.items()}
