"""MaxText's own words in ``notes``, as its configuration spells them: sharding, batch and rematerialisation.

References
----------
.. [1] https://github.com/AI-Hypercomputer/maxtext/blob/main/MaxText/configs/base.yml
.. [2] https://github.com/AI-Hypercomputer/maxtext/blob/02df1543/benchmarks/maxtext_trillium_model_configs.py:
   recipes whose policy is ``custom`` move the inputs of layers to the host and compute the rest again.
"""

from __future__ import annotations

import re
from math import prod
from typing import Final

from planner.calibrate.runs.checks import Refusal
from planner.calibrate.runs.plan import EVERY_LAYER
from planner.calibrate.runs.table import Run
from planner.units import is_whole

FRAMEWORK: Final = re.compile(r"max.?text", re.IGNORECASE)
WORD: Final = re.compile(
    r"\b((?:ici|dcn)_\w+_parallelism|per_device_batch_size|remat_policy|sparse_matmul)[ =:]+([\w.-]+)"
)
AXES: Final = {
    "tp": ("tensor", "tensor_transpose", "tensor_sequence"),
    "cp": ("sequence", "context"),
    "pp": ("pipeline",),
    "ep": ("expert",),
}
"""Degree to the axes of its mesh that make it; the other axes are data parallel, sharded or not."""

POLICIES: Final = ("full", "custom")
"""Policies of rematerialisation that are priced; the others keep products that no recompute choice names."""


def _degree(said: dict[str, str], axes: tuple[str, ...]) -> int | None:
    """Return the product of an axis inside a slice and between slices; None where neither is said."""
    values = [said.get(f"{where}_{axis}_parallelism", "") for where in ("ici", "dcn") for axis in axes]
    known = [int(value) for value in values if is_whole(value)]
    return prod(known) if known else None


def with_maxtext(run: Run) -> Run:
    """Return a run of MaxText whose blanks are filled by its own words.

    Raises `Refusal` where they name what the planner cannot express: another policy of rematerialisation, or
    experts in dense products of a fixed capacity.
    """
    if not FRAMEWORK.search(run.framework):
        return run
    said = {name: value.rstrip(".") for name, value in WORD.findall(run.notes)}
    policy = said.get("remat_policy", "")
    if policy and policy not in POLICIES and not run.recompute:
        raise Refusal(run, "notes", f"remat_policy={policy}", f"one of {', '.join(POLICIES)}, or recompute")
    if run.experts and said.get("sparse_matmul", "").lower() == "false":
        raise Refusal(run, "notes", "sparse_matmul=False", "experts in grouped products (sparse_matmul=True)")
    values: dict[str, object] = {name: _degree(said, axes) for name, axes in AXES.items()}
    ranks = prod(int(str(values[name] or getattr(run, name) or 1)) for name in ("tp", "cp", "pp"))
    batch = float(said.get("per_device_batch_size", "0")) * ranks
    values["micro_batch"] = int(batch) if batch >= 1 and batch == int(batch) else None
    values["recompute"] = "full" if policy in POLICIES else ""
    values["offload"] = EVERY_LAYER if policy == "custom" else ""
    return run.with_values(
        {name: value for name, value in values.items() if value and not getattr(run, name)}
    )
