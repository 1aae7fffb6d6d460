"""A plan that the planner saved (``--save``, ``--emit``), read as a recipe: job, layout and settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from planner.dataclasses import replace
from planner.errors import InputError
from planner.fields import ASKED_AXES, FIELDS, PLAN_FORMAT
from planner.inputs.build import MAPPING, UNKNOWN, build
from planner.inputs.plan_document import PlanDocument
from planner.plan import Plan
from planner.runtimes.imports.file_format import FileFormat, Source
from planner.runtimes.imports.sheet import Imported, Sheet

CLUSTER: Final = {"hardware": "name", "gpus_per_node": "gpus_per_node", "price": "price"}
"""Options of a cluster, and the keys of a plan's."""


def fits(source: Source) -> bool:
    """Return whether a YAML is a plan."""
    return source.tree.get("format") == PLAN_FORMAT


def read(source: Source) -> Imported:
    """Return what the plan says, the cluster that it was priced on among it."""
    tree = {name: part if isinstance(part, Mapping) else {} for name, part in source.tree.items()}
    flat = {f"{name}.{key}": value for name, part in tree.items() for key, value in part.items()}
    sheet = Sheet(source.where, flat)
    sheet.seen.update(flat)
    _known_keys(sheet, source)
    sheet.say("gpus", flat.get("hardware.gpus"), "hardware.gpus")
    flat["plan.stage_layers"] = _split(flat)
    for name in (axis.name for axis in ASKED_AXES):
        sheet.say(name, _words(flat.get(f"plan.{name}")), f"plan.{name}")
    for name, field in FIELDS.items():
        value = flat.get(f"workload.{name}")
        sheet.say(name, None if value == field.default else _words(value), f"workload.{name}")
    sheet.say("target_version", flat.get("runtime.release") or None, "runtime.release")
    for name in ("settings", "traits"):
        found = flat.get(f"runtime.{name}") or {}
        if isinstance(found, Mapping):
            sheet.changes += [f"{key}={_words(value)}" for key, value in found.items()]
        else:
            sheet.fault(f"runtime.{name}", repr(found)[:60], "a mapping of names to values")
    for key in ("model.name", "hardware.gpus", "runtime.name", "plan.tp"):
        if key not in flat:
            sheet.fault(key, "nothing", "what `--save` writes")
    if source.tree.get("order") is not None:
        sheet.notes.append("the plan's own order of passes is left aside")
    found = sheet.imported(str(flat.get("runtime.name")), model_name=str(flat.get("model.name")))
    named = {name: _words(flat.get(f"hardware.{key}")) for name, key in CLUSTER.items()}
    named["price"] = (named["price"] or "").removesuffix(" USD/h") or None
    named["memory_limit"] = _words(source.tree.get("memory_limit"))
    cluster = {name: text for name, text in named.items() if text is not None}
    return replace(found, cluster=cluster if "hardware" in cluster else {})


def _known_keys(sheet: Sheet, source: Source) -> None:
    """Note a fault for each key that a plan file does not have, and each part that is no mapping."""
    try:
        build(PlanDocument, source.tree, source.where)
    except InputError as error:
        for problem in error.problems:
            if problem.found == UNKNOWN or problem.expected == MAPPING:
                key = problem.where.removeprefix(f"{source.where}: ")
                sheet.fault(key, problem.found, problem.nearest or problem.expected)


def _split(flat: Mapping[str, Any]) -> Any:
    """Return the layers of the stages, the prediction layers marked where they stand before a loss alone."""
    layers = flat.get("plan.stage_layers")
    if not isinstance(layers, list) or flat.get("plan.prediction_apart") is not True:
        return layers
    return Plan(stage_layers=tuple(layers), prediction_apart=True).split_text.split("-")


def _words(value: Any) -> str | None:
    """Return a value as an option spells it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return ",".join(map(str, value))
    return None if value is None else str(value)


ENTRY: Final = FileFormat("a saved plan", (".yaml", ".yml"), fits, read)
