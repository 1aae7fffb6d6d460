"""Search one case, wherever it runs: a request goes in, an outcome of plain values comes out."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, fields
from typing import Any, Final

from planner.calibrate.releases import label_of
from planner.errors import PlannerError
from planner.report.as_json import plain
from planner.report.flat import flat_row
from planner.report.plan_file import digest, tool_version
from planner.runtimes.family import Runtime
from planner.search.optimise import found_plans
from planner.search.request import SearchRequest
from planner.search.result import SearchResult
from planner.sweep.grid import Options
from planner.sweep.row import FAILED, FITS, NOTHING_FITS, REFUSED, SweepOutcome

KEY_LENGTH: Final = 32
"""Hexadecimal digits of a key: 128 bits, so that no two cases of any sweep share one."""


def content_key(request: SearchRequest) -> str:
    """Return a digest of everything that the outcome of a request depends on.

    It changes with any number of the model, the cluster, the runtime or the workload, with an axis that is
    fixed, and with the version of the planner, and not with how the user has named them.
    """
    content: dict[str, Any] = {field.name: getattr(request, field.name) for field in fields(request)}
    content |= {
        "model": digest(request.model),
        "clusters": [digest(cluster) for cluster in request.clusters],
        "runtimes": [_known(runtime) for runtime in request.runtimes],
        "workload": request.workload.model_dump(mode="json"),
        "fixed": dict(request.fixed),
        "settings": None if request.settings is None else asdict(request.settings),
    }
    return _digest(content)


def _known(runtime: Runtime) -> str:
    """Return a digest of a runtime, with its release where that is not the newest: answers name it."""
    return digest(runtime) + label_of(runtime).removeprefix(runtime.name)


def refused_key(options: Options, reason: str) -> str:
    """Return a digest of a case from whose values no request can be made."""
    return _digest({"options": dict(options), "reason": reason})


def _digest(content: dict[str, Any]) -> str:
    text = json.dumps(content | {"version": tool_version()}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:KEY_LENGTH]


def solve(request: SearchRequest) -> SweepOutcome:
    """Return what the search of a request gives; an error is an outcome too."""
    try:
        return outcome_of(found_plans(request))
    except PlannerError as error:
        return SweepOutcome(REFUSED, reason=str(error))
    except Exception as error:
        return failed(error)


def outcome_of(result: SearchResult) -> SweepOutcome:
    """Return a search in plain values: its best plan, or what would fit."""
    space = {name: getattr(result, name) for name in ("enumerated", "valid", "fits", "priced")}
    return SweepOutcome(
        status=FITS if result.plans else NOTHING_FITS,
        best=plain(flat_row(result.plans[0])) if result.plans else None,
        nearest=None if result.nearest is None else plain(dict(result.nearest)),
        space=space | {"removed": plain(dict(result.removed))},
        elapsed_s=result.elapsed,
    )


def failed(error: BaseException | str) -> SweepOutcome:
    """Return the outcome of a case whose search ended with an error."""
    words = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
    return SweepOutcome(FAILED, reason=" ".join(words.split())[:300])
