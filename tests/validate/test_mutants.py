"""No launch file is priced in silence that its runner refuses, or trains otherwise than it is read.

The files of random legal plans are changed once or twice, and shown to the runner's own code and to
``planner estimate --from``, which must refuse a file too, tell what it did not understand, or read the
change. Needs what the tests of each runner's plans need; ``VALIDATE_MUTANTS`` says how many files are changed
(20 where unset), ``VALIDATE_SEED`` the seed.
"""

from __future__ import annotations

import os
import random
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from planner.inputs.load_hardware import cluster_names
from planner.runtimes import runtimes
from planner.runtimes.imports.dispatch import read_runner_file
from tests.cli.command import planner
from tests.validate.ask import SEED, has
from tests.validate.megatron.runner import Verdict
from tests.validate.mutants.change import change
from tests.validate.mutants.files import Value, launch_file
from tests.validate.mutants.judges import RUNNERS, Folder, folders

COUNT = int(os.environ.get("VALIDATE_MUTANTS", "20"))
EACH = 3
"""Changed files of one plan."""

BESIDE = ("run", "smoke")
"""What a runner derives of a run and no plan has: rates, seeds, intervals."""

UNPRICED = ("layernorm_epsilon", "epsilon", "init_std", "init_method_std", "moe_router_pre_softmax")
"""Numbers of the function that decide no price and that the zoo's models need not say."""

SAVED = ("FSDP_STATE_DICT_TYPE",)
"""Variables that decide how checkpoints are written, and nothing of a step."""

UNJUDGED = (
    "no available devices found",
    "This op had not been implemented on CPU backend",
    "Unable to JIT load the async_io op",
)
"""What the runners' code says where it wants a GPU or a library that the machine lacks."""

SAME = {
    "tp": "tp", "pp": "pp", "vpp": "vpp", "cp": "cp", "ep": "ep", "dp": "dp", "zero": "zero",
    "micro_batch": "micro_batch", "num_microbatches": "num_microbatches", "accumulation": "num_microbatches",
    "sequence_parallel": "sequence_parallel",
}  # fmt: skip
"""What a runner derives, by the plan's names."""

bridge, megatron = (bool(os.environ.get(name)) for name in ("MEGATRON_BRIDGE", "MEGATRON_LM"))
THERE: dict[str, Callable[[], bool]] = {
    "megatron-lm": lambda: megatron and not bridge,
    "megatron-bridge": lambda: megatron and bridge,
    "torchtitan": lambda: bool(os.environ.get("TORCHTITAN")) and has("tyro"),
    "nanotron": lambda: bool(os.environ.get("NANOTRON")) and has("dacite"),
    "deepspeed": lambda: has("deepspeed"),
    "fsdp": lambda: has("accelerate"),
}
"""Whether a runner can be asked here."""

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]


class Told(NamedTuple):
    """What ``planner estimate --from`` made of a file: a price, or its refusal."""

    priced: bool
    plan: dict[str, Any]
    said: dict[str, Any]
    error: str


class Mutant(NamedTuple):
    """A changed folder, the plain one, and what was changed, in words."""

    plain: int
    folder: Folder
    changes: list[str]


def told(folder: Folder, file: str) -> Told:
    path, cluster = folder.path / file, folder.job.hardware.name
    hardware = cluster if cluster in cluster_names() else "dgx-h100"
    done = planner("estimate", "--from", str(path), "--hardware", hardware, "--format", "json")
    try:
        document = done.json
    except ValueError:
        return Told(False, {}, {}, done.err)
    read = document["from"]
    found = read_runner_file(path)
    said_too = {"changes": str(found.changes), "numerics": str(found.model and found.model.numerics)}
    said = {name: document[name] for name in ("model", "workload", "plan", "settings", "violations")}
    said |= said_too | {
        name: str(read[name]).replace(str(folder.path), "") for name in ("notes", "not_understood")
    }
    return Told(not document["violations"], document["plan"], said, done.err)


def silence(plain: tuple[Verdict, Told], changed: tuple[Verdict, Told]) -> str:
    """Return what was kept silent of a changed file; nothing where all was told."""
    (before, ours), (after, now) = (_in_effect(*pair) for pair in (plain, changed))
    if now.error.startswith("internal error"):
        return now.error
    if not now.priced or (after.error and now.said != ours.said and _more_told(ours, now)):
        return ""
    if after.error:
        return f"refused: {after.error[:300]}"
    differing = {
        name: (value, now.plan[ours_name])
        for name, ours_name in SAME.items()
        if (value := after.derived.get(name)) is not None
        and before.derived.get(name) == ours.plan[ours_name]
        and value != now.plan[ours_name]
    }
    if differing:
        return f"derived and read: {differing}"
    moved = {
        name: (before.derived.get(name), value)
        for name, value in after.derived.items()
        if name not in (*BESIDE, *UNPRICED) and not _same(before.derived.get(name), value)
    }
    return f"derived before and after: {str(moved)[:300]}" if moved and now.said == ours.said else ""


def _in_effect(verdict: Verdict, told: Told) -> tuple[Verdict, Told]:
    """Return both without what does nothing: sequence parallelism at tp 1, a pipeline at pp 1, idle YaRN."""
    name, derived, plan = "sequence_parallel", dict(verdict.derived), dict(told.plan)
    if derived.get("pp") == 1:
        derived = {key: value for key, value in derived.items() if key not in ("engine", "pp_microbatches")}
    if derived.get("position_embedding_type", "yarn") != "yarn":
        idle = ("yarn_", "mscale") if derived.get("rope_type") != "yarn" else ("yarn_",)
        derived = {key: value for key, value in derived.items() if not key.startswith(idle)}
    if "environment" in derived:
        kept = {key: value for key, value in derived["environment"].items() if key not in SAVED}
        derived["environment"] = kept
    for found in (derived, plan):
        found |= {name: found[name] and found.get("tp", 1) > 1} if name in found else {}
    return Verdict(verdict.error, derived), told._replace(plan=plan)


def _same(one: Any, other: Any) -> bool:
    """Return whether two things derived are the same: as a switch, where one was; beside `UNPRICED`."""
    if isinstance(one, bool):
        return one == bool(other)
    if isinstance(one, str) and isinstance(other, str) and {one, other} == {"native", ""}:
        return True  # one price for the loss of Megatron-core, fused or not
    if isinstance(one, dict) and isinstance(other, dict):
        return {**one, **dict.fromkeys(UNPRICED)} == {**other, **dict.fromkeys(UNPRICED)}
    return bool(one == other)


def _more_told(ours: Told, now: Told) -> bool:
    return any(now.said[name] != ours.said[name] for name in ("notes", "not_understood"))


def mutants(plain: list[Folder], file: str, place: Path) -> list[Mutant]:
    """Change the file of each folder a few times; values of the others are among the changes."""
    dice, seen = random.Random(SEED), defaultdict[str, list[Value]](list)
    for folder in plain:
        for name, value in launch_file(folder.path / file).values().items():
            if value not in seen[name]:
                seen[name].append(value)
    found = []
    for index in range(COUNT):
        folder = plain[index // EACH]
        path = place / f"{folder.path.name}-{index % EACH}"
        path.mkdir()
        for other in folder.path.iterdir():
            (path / other.name).write_text(other.read_text(encoding="utf-8"), encoding="utf-8")
        changed = launch_file(folder.path / file)
        words = change(changed, dice, seen)
        (path / file).write_text(changed.text(), encoding="utf-8")
        found.append(Mutant(index // EACH, folder._replace(path=path), words))
    return found


@pytest.mark.parametrize("name", RUNNERS)
def test_no_changed_file_is_priced_in_silence(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if not THERE[name]():
        pytest.skip(f"{name} cannot be asked here: see the tests of its plans")
    runner = RUNNERS[name]
    for place in ("plain", "changed", "stand-ins"):
        (tmp_path / place).mkdir()
    plain = list(folders(runtimes()[name], SEED, -(-COUNT // EACH), tmp_path / "plain"))
    changed = mutants(plain, runner.file, tmp_path / "changed")
    whole = [*plain, *(mutant.folder for mutant in changed)]
    verdicts = runner.judge(tmp_path / "stand-ins")(whole)
    ours = [told(folder, runner.file) for folder in whole]
    pairs = list(zip(verdicts, ours, strict=True))
    faults, kinds = [], Counter[str]()
    for mutant, pair in zip(changed, pairs[len(plain) :], strict=True):
        before = pairs[mutant.plain]
        if before[0].error or not before[1].priced:
            kinds["plain file not taken"] += 1
            continue
        if any(words in pair[0].error for words in UNJUDGED):
            kinds["not judged without a GPU"] += 1
            continue
        kept = silence(before, pair)
        kinds["refused by both" if pair[0].error and not pair[1].priced else
              "refused by the runner alone" if pair[0].error else
              "refused by us alone" if not pair[1].priced else "taken by both"] += 1  # fmt: skip
        if kept:
            faults.append(f"{mutant.folder.path}: {'; '.join(mutant.changes)}: {kept}")
        elif not pair[0].error and not pair[1].priced:
            alone = f"us alone: {'; '.join(mutant.changes)}: {pair[1].error or pair[1].said['violations']}"
            if os.environ.get("VALIDATE_VERBOSE"):
                with capsys.disabled():
                    print(alone[:400])  # noqa: T201
    with capsys.disabled():
        print(f"\n{name}, seed {SEED}, {len(changed)} changed files: {dict(kinds)}; silent {len(faults)}")  # noqa: T201
    assert kinds["plain file not taken"] <= 0.4 * len(changed)
    assert not faults, "\n".join(faults)
