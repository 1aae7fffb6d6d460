"""A value of a setting is the runtime's own, or written into its files, or refused with who has it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest

from planner.calibrate.releases import named_runtime
from planner.cost.estimate import estimate
from planner.inputs.load import load_model
from planner.inputs.load_hardware import load_hardware
from planner.inputs.workload import Workload
from planner.plan import Plan
from planner.question.reading import Reading
from planner.question.traits import check_settings, has_setting
from planner.runtimes import runtimes
from planner.runtimes.family import Job, Runtime
from planner.runtimes.settings import CHOICES
from planner.runtimes.trait_values import is_allowed
from planner.runtimes.traits import TRAITS
from planner.techniques.settings import SETTINGS
from tests.cases import every
from tests.cli.command import planner
from tests.deep import deep

EACH = [(name, setting) for name in runtimes() for setting in SETTINGS]


@every(("name", "setting"), EACH)
def test_a_value_that_no_file_of_a_runtime_says_is_refused_with_who_has_it(name: str, setting: str) -> None:
    runtime = runtimes()[name]
    for value in SETTINGS[setting].values:
        reading = Reading()
        check_settings([f"{setting}={value}"], [runtime], reading)
        able = [one for one, known in runtimes().items() if has_setting(known, setting, value)]
        if name in able or not able:
            assert not reading.problems
            continue
        (problem,) = reading.problems
        assert all(one in problem.expected for one in able)


def test_only_levels_of_shards_are_what_nobody_writes() -> None:
    """Priced for whoever builds them (arXiv:2311.00257), and refused where files are written."""
    nobody = {
        setting
        for setting, known in SETTINGS.items()
        for value in known.values
        if not any(has_setting(runtime, setting, value) for runtime in runtimes().values())
    }
    assert nobody == {"shard_levels"}
    assert {trait for name in nobody for trait in next(iter(SETTINGS[name].values.values()))} <= CHOICES


def test_what_some_file_says_as_a_word_or_a_switch_is_a_choice() -> None:
    """Files of a runtime without it cannot start what was priced with it, and are not written."""
    said = {trait for runtime in runtimes().values() for trait in runtime.settings}
    assert {trait for trait in said if TRAITS[trait].kind is not float} <= CHOICES


JOBS = (
    ("llama3-8b", "bf16", 4096, "dgx-h100", None),
    ("llama3-8b", "bf16", 65536, "dgx-h100", "lognormal:mean=4096,max=65536,seed=1"),
    ("llama3-8b", "fp8", 131072, "dgx-h100", None),
    ("llama3-8b", "fp8", 4096, "dgx-h100", None),
    ("qwen3-30b-a3b", "bf16", 4096, "dgx-h100", None),
    ("qwen3-30b-a3b", "mxfp8", 4096, "dgx-b200", None),
    ("qwen2-57b-a14b", "bf16", 4096, "dgx-b200", None),
)
LAYOUTS = (
    {"zero": 3}, {"zero": 1}, {"zero": 2}, {"zero": 3, "zero_shards": 8}, {"zero": 1, "ep": 8},
    {"zero": 3, "ep": 8}, {"zero": 1, "tp": 2}, {"zero": 3, "tp": 2}, {"zero": 1, "tp": 2, "pp": 2},
    {"zero": 1, "cp": 4},
)  # fmt: skip


def jobs() -> Iterator[tuple[Job, Plan]]:
    for model, precision, length, cluster, lengths in JOBS:
        work = Workload(seq_len=length, global_batch=64, precision=precision, seq_lens=lengths)
        job = Job(load_model(model), load_hardware(cluster), 16, work)
        for said in LAYOUTS:
            dp = 16 // (said.get("tp", 1) * said.get("pp", 1) * said.get("cp", 1))
            shards = said.get("zero_shards", dp * said.get("cp", 1))
            yield job, Plan(
                **said | {"dp": dp, "zero_shards": shards, "num_microbatches": 64 // dp},
                micro_batch=1, sequence_parallel=said.get("tp", 1) > 1,
            )  # fmt: skip


def texts(runtime: Runtime, job: Job, plan: Plan, changes: dict[str, object]) -> str:
    assert runtime.command is not None
    return repr(runtime.command(plan, job, runtime.release, changes))  # type: ignore[arg-type]


WRITTEN = [
    (name, setting, value)
    for name, setting in EACH
    for value, traits in SETTINGS[setting].values.items()
    if has_setting(runtimes()[name], setting, value)
    and any(runtimes()[name].traits.value_of(trait) != wanted for trait, wanted in traits.items())
]


@pytest.mark.parametrize(("name", "setting", "value"), WRITTEN)
def test_a_value_that_is_taken_is_in_the_files(name: str, setting: str, value: str) -> None:
    changes = dict(SETTINGS[setting].values[value])
    for release in runtimes()[name].versions:
        for job, plan in jobs():
            device = job.hardware.pool.accelerator.name
            runtime = named_runtime(f"{name}@{release}", device, job.workload.precision)
            other = runtime.with_traits(**changes)
            legal = not estimate(plan, job, other).violations
            if legal and texts(other, job, plan, changes) != texts(runtime, job, plan, {}):
                return
    pytest.fail("no legal plan has files that say it")


def test_the_command_line_says_who_has_a_setting() -> None:
    asked = ["estimate", "llama3-8b", "--hardware", "dgx-h100", "--gpus", "8", "--runtime", "fsdp", "--set"]
    for text in ("precision_aware=on", "precision_aware=true"):
        done = planner(*asked, text)
        assert done.code == 2
        assert "on with fsdp, whose files cannot ask for it" in done.err
        assert "megatron-bridge, megatron-lm" in done.err


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", runtimes())
def test_no_least_value_of_a_trait_is_divided_by(name: str) -> None:
    """Buckets without elements, a loss in half a part: what may be said is priced."""
    job, plan = list(jobs())[1]
    turn = list(runtimes()).index(name)
    for place, (trait, value) in enumerate(product(TRAITS, (0.0, 0.5))):
        if deep((place + turn) % 2, 0):
            continue  # of each trait one value, the other one for the next runtime
        changed = runtimes()[name].with_traits(**{trait: value}) if is_allowed(trait, value) else None
        assert changed is None or estimate(plan, job, changed).peak > 0, (trait, value)
