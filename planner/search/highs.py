"""HiGHS, asked through PuLP and started from a known answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from planner.errors import SolverError


def solve_from(model: Any, start: Mapping[str, float], time_limit: float, gap: float) -> float:
    """Solve a PuLP model on one core, and return its bound without the objective's constant.

    Parameters
    ----------
    model : pulp.LpProblem
        What to minimise; its variables get their values.
    start : mapping
        Values of some or all variables by name, of an answer that is known.
    time_limit : float
        When to stop. [s]
    gap : float
        Relative gap at which it may stop. [-]

    Raises
    ------
    SolverError
        If HiGHS is missing or ends without an answer.
    """
    import pulp

    class Started(pulp.HiGHS):  # type: ignore[misc]
        def callSolver(self, model: Any) -> None:
            places = {variable.name: variable.index for variable in model.variables()}
            index = np.array([places[name] for name in start], dtype=np.int32)
            if start:
                model.solverModel.setSolution(len(start), index, np.array([*start.values()]))
            model.solverModel.run()

    solver = Started(msg=False, timeLimit=time_limit, gapRel=gap, threads=1)
    if not solver.available():
        raise SolverError("HiGHS is not installed")
    status = model.solve(solver)
    if status != pulp.LpStatusOptimal:
        raise SolverError(f"HiGHS ended with {pulp.LpStatus[status].lower()}")
    return float(model.solverModel.getInfo().mip_dual_bound)
