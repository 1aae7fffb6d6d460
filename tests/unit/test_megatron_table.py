"""Every entry and value of Megatron-LM's table of flags is read back as what it was written for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from planner.inputs.load import load_model
from planner.inputs.workload import Workload
from planner.plan import Plan
from planner.runtimes.imports.command_flags import flag_values
from planner.runtimes.imports.command_line import Training
from planner.runtimes.megatron_lm.flags import precision_flags, sharding_flags
from planner.runtimes.megatron_lm.precision_rules import PRECISIONS
from planner.runtimes.megatron_lm.reading.megatron import from_script
from planner.runtimes.megatron_lm.table import DEGREES, PRECISION, SHARDING, degree_flags
from tests.cases import every

VERSIONS = ("0.16", "0.20")


def options(words: Sequence[str]) -> Mapping[str, str]:
    training = Training("megatron-lm", flag_values(words), 1, 8, None, ())
    return from_script(training, "train.sh", load_model("llama-3-8b"))[0].options


@every("degree", [1, 2, 8])
@every("name", DEGREES)
def test_a_degree_is_read_back(name: str, degree: int) -> None:
    degrees: dict[str, Any] = {name: degree}
    written = degree_flags(Plan(**degrees), name)
    assert options(written)[name] == str(degree)


@every("name", PRECISION)
def test_a_precision_is_read_back(name: str) -> None:
    work = Workload(seq_len=4096, global_batch=64, precision=name)
    assert options(precision_flags(work))["precision"] == name


@every("version", VERSIONS)
@every("stage", [0, 1, *SHARDING])
def test_a_sharding_strategy_is_read_back(stage: int, version: str) -> None:
    work = Workload(seq_len=4096, global_batch=64)
    assert options(sharding_flags(Plan(zero=stage), work, version))["zero"] == str(stage)


def test_the_table_has_every_precision_that_the_rules_allow() -> None:
    assert set(PRECISION) == set(PRECISIONS)
