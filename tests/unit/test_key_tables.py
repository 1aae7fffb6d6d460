"""Every row of DeepSpeed's and Accelerate's tables of keys is written, and read back as it was meant."""

from __future__ import annotations

import json
from typing import Any

import yaml

from planner.plan import Plan
from planner.runtimes import runtimes
from planner.runtimes.deepspeed import table as deepspeed
from planner.runtimes.deepspeed.reading.deepspeed import from_json
from planner.runtimes.family import Command, Job
from planner.runtimes.fsdp import table as accelerate
from planner.runtimes.fsdp.reading.accelerate import from_yaml, launch_flags
from planner.runtimes.imports.literals import flat, literals
from planner.runtimes.imports.sheet import Imported
from planner.runtimes.keys import FileKey, nested
from planner.runtimes.settings import Value
from tests.cases import every
from tests.unit.cost_jobs import MODELS, job

OPTIONS: dict[str, tuple[int | str, ...]] = {
    "global_batch": (32, 64),
    "micro_batch": (1, 2),
    "accumulation": (1, 4),
    "tp": (2, 4),
    "ep": (2, 4),
    "cp": (2, 4),
    "zero": (0, 1, 2, 3),
    "gradient_dtype": ("fp32",),
}
"""Values of each option of a DeepSpeed JSON; of gradients that which is not as the precision has it."""

MESHES: dict[str, tuple[int | str, ...]] = {
    "gpus": (8, 16),
    "tp": (1, 2),
    "cp": (2, 4),
    "cp_method": ("all-gather", "ring"),
    "zero": (2, 3),
    "recompute": ("none", "full"),
    "offload": ("none", "weights"),
}
"""Values of each option of an Accelerate YAML."""

TRAITS: dict[str, tuple[FileKey, Value]] = {
    **{name: (key, 2e8) for name, key in deepspeed.SIZES.items()},
    **{name: (key, True) for name, key in deepspeed.SWITCHES.items()},
    "secondary_shards": (deepspeed.SECONDARY, True),
    "reduce_dtype": (deepspeed.REDUCED, "fp32"),
    "host_checkpoints": (deepspeed.HOST_CHECKPOINTS, True),
    "dp_exposed": (deepspeed.OVERLAP, 1.0),
}
"""For each trait that a DeepSpeed JSON says its key, and a value that is not DeepSpeed's own."""

OTHER = {"dp_exposed": "overlap_comm=false"}
"""Traits whose key is a setting of another name."""


def plan_with(name: str, value: int | str, work: Job) -> Plan:
    """Return a plan with one option set, whatever rules say."""
    said: dict[str, Any] = {"zero": 3, "micro_batch": 1.0, "tp": 1.0, "cp": 1.0, "ep": 1.0}
    said |= {"cp_method": "ring", "recompute": "none", "offload": "none"}
    said |= {"cp": 2.0} if name == "cp_method" else {}
    field = {"accumulation": "num_microbatches"}.get(name, name)
    said |= {field: float(value) if isinstance(value, int) and name != "zero" else value}
    said["dp"] = work.gpus / said["tp"] / said["cp"]
    said.setdefault("num_microbatches", 2.0)
    said["zero_shards"] = said["dp"] * said["cp"] if said["zero"] else 1.0
    return Plan(**{field: value for field, value in said.items() if field in Plan.__dataclass_fields__})


def command(runtime: str, plan: Plan, work: Job, **traits: Value) -> Command:
    made = runtimes()[runtime].command
    assert made is not None
    return made(plan, work, runtimes()[runtime].versions[0], traits)


def json_read(written: Command) -> tuple[dict[str, Any], Imported]:
    files = written.files or {}
    tree = json.loads(files["ds_config.json"])
    return flat(tree), from_json(tree, literals(files["train.py"]), "ds_config.json")


def yaml_read(written: Command) -> tuple[dict[str, Any], Imported]:
    files = written.files or {}
    text = files["accelerate.yaml"]
    tree = yaml.safe_load(text)
    return flat(tree), from_yaml(tree, launch_flags(text), literals(files["train.py"]), "accelerate.yaml")


@every("name", deepspeed.OPTIONS)
def test_an_option_of_a_deepspeed_json_is_read_back(name: str) -> None:
    key = deepspeed.OPTIONS[name]
    for value in OPTIONS[name]:
        asked: dict[str, Any] = {name: value} if name in ("global_batch", "gradient_dtype") else {}
        work = job(MODELS["experts"], 16, **asked)
        keys, found = json_read(command("deepspeed", plan_with(name, value, work), work))
        assert keys[key.path] == key.told(value)
        assert (found.options[name], found.places[name]) == (str(value), key.path)


@every("precision", deepspeed.PRECISIONS)
def test_a_precision_of_a_deepspeed_json_is_read_back(precision: str) -> None:
    work = job(gpus=16, precision=precision)
    keys, found = json_read(command("deepspeed", plan_with("zero", 3, work), work))
    assert keys[deepspeed.PRECISIONS[precision]] is True
    assert found.options["precision"] == precision


@every("trait", TRAITS)
def test_a_trait_of_a_deepspeed_json_is_read_back(trait: str) -> None:
    (key, value), work = TRAITS[trait], job(gpus=16)
    plain, _ = json_read(command("deepspeed", plan_with("zero", 3, work), work))
    keys, found = json_read(command("deepspeed", plan_with("zero", 3, work), work, **{trait: value}))
    assert keys[key.path] != plain.get(key.path)
    word = f"{value:g}" if isinstance(value, float) else str(value).lower()
    assert OTHER.get(trait, f"{trait}={word}") in found.changes


def test_no_key_of_a_deepspeed_json_is_left_out_of_its_table() -> None:
    """What the planner writes and its reader takes as a decision stands in the table, and nothing twice."""
    rows = [*deepspeed.OPTIONS.values(), *(key for key, _ in TRAITS.values())]
    paths = [key.path for key in rows]
    assert len(set(paths)) == len(paths)
    assert {key.path for key in vars(deepspeed).values() if isinstance(key, FileKey)} <= set(paths)


@every("name", accelerate.OPTIONS)
def test_an_option_of_an_accelerate_yaml_is_read_back(name: str) -> None:
    key = accelerate.OPTIONS[name]
    for value in MESHES[name]:
        work = job(gpus=int(value) if name == "gpus" else 16)
        keys, found = yaml_read(command("fsdp", plan_with(name, value, work), work))
        assert keys[key.path] == key.told(value)
        assert found.options.get(name, "none") == str(value)


@every("name", accelerate.FLAGS)
def test_an_argument_beside_an_accelerate_yaml_is_read_back(name: str) -> None:
    work = job(gpus=16)
    for value in (1, 4):
        _, found = yaml_read(command("fsdp", plan_with(name, value, work), work))
        assert found.options[name] == str(value)


@every("axis", accelerate.SIZES)
def test_a_mesh_is_read_back(axis: str) -> None:
    """Replicas of shards are read as the ranks that share."""
    work = job(gpus=16)
    groups = plan_with("cp", 2, work)
    plan = Plan(**{**vars(groups), "tp": 2.0, "dp": 4.0, "zero_shards": 4.0, "cp_method": "ring"})
    keys, found = yaml_read(command("fsdp", plan, work))
    assert keys[accelerate.SIZES[axis]] == {"sp": 1}.get(axis, 2)
    read = {name: found.options[name] for name in ("tp", "cp", "zero_shards", "cp_method")}
    assert read == {"tp": "2", "cp": "2", "zero_shards": "4", "cp_method": "ring"}


def test_a_compiler_of_an_accelerate_yaml_is_read_back() -> None:
    work, key = job(gpus=16), accelerate.COMPILED
    keys, found = yaml_read(command("fsdp", plan_with("zero", 3, work), work, compiled=True))
    assert keys[key.path] == key.told(True)
    assert "compiled=true" in found.changes


def test_a_word_means_what_was_told_in_any_case() -> None:
    key = FileKey("a.b", {3: True, 2: False})
    assert (key.name, key.meant("TRUE"), key.meant(False), key.meant("other")) == ("b", 3, 2, None)
    assert FileKey("n").meant(7) == FileKey("n").told(7) == 7


def test_sections_and_dots_are_each_others_reverse() -> None:
    tree = {"a": {"b": 1, "c": {"d": [2]}}, "e": False}
    assert nested(flat(tree)) == tree
