"""Releases as rows and documents: what ships, what each brings, and what a bump changes for a plan."""

from __future__ import annotations

import re
from typing import Any, Final

from planner.calibrate.eras import Era, unmeasured
from planner.calibrate.eras.record import BEFORE_HOPPER
from planner.calibrate.releases import Release, era_of, releases
from planner.inputs.fitted import fitted
from planner.inputs.load_hardware import accelerator_names
from planner.inputs.measured_bands import measured_bands, release_bands
from planner.registry import find
from planner.report.as_json import STAGE_KEYS, TIME_KEYS, Document, plain
from planner.report.compare import NamedPlan, differences, fullest
from planner.runtimes import runtimes
from planner.units import GIB

SHOW: Final = "planner/runtime/1"
DIFF: Final = "planner/runtimes-diff/1"


def runtime_rows() -> list[dict[str, Any]]:
    """Return a row for each runtime."""
    return [
        {
            "runtime": name,
            "newest": known.newest.name,
            "date": known.newest.date,
            "releases": len(known.releases),
            "files_for": ", ".join(runtimes()[name].versions),
            "measured_runs": sum(
                band.runs for (owner, _, _), band in measured_bands().items() if owner == name
            ),
        }
        for name, known in releases().items()
    ]


def runtime_document(name: str) -> Document:
    """Return a runtime with all its releases as JSON.

    Raises `InputError` if there is no such runtime.
    """
    runtime = find(runtimes(), name, "NAME")
    known = releases()[runtime.name]
    measured = [
        {
            "accelerator": band.accelerator,
            "regime": band.regime,
            "runs": band.runs,
            "sources": band.sites,
            "band": band.band,
        }
        for (owner, _, _), band in sorted(measured_bands().items())
        if owner == runtime.name
    ]
    document: Document = plain(
        {
            "schema": SHOW,
            "runtime": runtime.name,
            "newest": known.newest.name,
            "source": known.source,
            "releases": [_release(runtime.name, release) for release in known.releases],
            "measured": measured,
        }
    )
    return document


def _release(runtime: str, release: Release) -> Document:
    versions = runtimes()[runtime].versions
    return {
        "release": release.name,
        "date": release.date,
        "containers": list(release.containers),
        "brings": release.brings,
        "files": release.files or versions[0],
        "own_files": bool(release.files),
        "eras": [_era(runtime, era) for era in eras_of(release)],
    }


def eras_of(release: Release) -> list[Era]:
    """Return the eras of a release over all accelerators that it runs on."""
    names = [
        name
        for name in accelerator_names()
        if not release.before_hopper or re.search(BEFORE_HOPPER, name.lower())
    ]
    found = (era_of(release, name) for name in names)
    return list({era.name: era for era in found if era is not None}.values())


def _era(runtime: str, era: Era) -> Document:
    measured = [
        {"accelerator": band.accelerator, "regime": band.regime, "runs": band.runs, "band": band.band}
        for ((owner, _, _), name), band in sorted(release_bands().items())
        if (owner, name) == (runtime, era.name)
    ]
    return {
        "measured": measured,
        "era": era.name,
        "about": era.about,
        "traits": dict(era.traits),
        "compared": era.name not in unmeasured(),
        "fitted": [
            {"name": constant.name, "value": constant.value, "runs": constant.rows}
            for constant in fitted("era", era.name)
        ],
    }


def release_rows(document: Document, whole: bool) -> list[dict[str, Any]]:
    """Return a row for each release of a runtime's document; ``whole`` has its eras too."""
    return [
        {
            "release": one["release"],
            "date": one["date"],
            "containers": ", ".join(one["containers"]),
            "brings": one["brings"],
            "files": one["files"] if one["own_files"] else f"those of {one['files']}",
            "runs of its eras": sum(band["runs"] for era in one["eras"] for band in era["measured"]),
        }
        | ({"eras": ", ".join(era["era"] for era in one["eras"])} if whole else {})
        for one in document["releases"]
    ]


def measured_rows(document: Document) -> list[dict[str, Any]]:
    """Return the measured runs of a runtime, of all its releases, by accelerator."""
    return [
        {"accelerator": one["accelerator"], "measured runs": one["runs"], "band": f"±{one['band']:.0%}"}
        for one in document["measured"]
    ]


def diff_document(first: NamedPlan, second: NamedPlan) -> Document:
    """Return what the second release changes: seconds by term, and GiB by part of the fullest stage."""
    a, b = first.answer, second.answer
    old, new = a.runtime.traits.flat(), b.runtime.traits.flat()
    document: Document = plain(
        {
            "schema": DIFF,
            "releases": [
                {
                    "runtime": one.answer.runtime.name,
                    "release": one.answer.runtime.release,
                    "step_time_s": one.answer.step,
                    "peak_gib": one.answer.peak / GIB,
                    "feasible": one.answer.feasible,
                }
                for one in (first, second)
            ],
            "step_time_s": b.step - a.step,
            "time_s": {key: differences(a, b)[key] for key in TIME_KEYS},
            "peak_gib": (b.peak - a.peak) / GIB,
            "memory_gib": {
                key: (getattr(fullest(b), key) - getattr(fullest(a), key)) / GIB for key in STAGE_KEYS
            },
            "traits": {
                name: {"from": old[name], "to": value} for name, value in new.items() if value != old[name]
            },
        }
    )
    return document
