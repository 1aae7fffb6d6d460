"""Stages of the fit are data: a file says which runs tell of which constants, and its faults come at once."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from planner.calibrate.constants import shipped_values
from planner.calibrate.stages import WantedRuns, read_stages, stages
from planner.errors import InputError
from planner.inputs.fitted import all_constants
from tests.cases import every

STAGE = """
stages:
  - name: first
    runs: [{sources: [lab-*], experts: false}, {eras: [fsdp], weighed: true}]
    group: [model, tp]
    source: https://example.org
    constants:
      - {era: fsdp, name: compute_derate, meaning: "x [-]", start: 0.9, width: 0.2, shared: [{runtime: fsdp}]}
"""


def run(**values: Any) -> Any:
    said = {"source": "lab-a", "experts": None, "peak_mem_gib": None, "memory_kind": "", "model": "m"}
    own = SimpleNamespace(**{name: values.pop(name, value) for name, value in said.items()})
    return SimpleNamespace(**{"run": own, "era": "megatron-lm", "plan": SimpleNamespace(tp=2.0), **values})


def written(folder: Path, text: str) -> Path:
    path = folder / "stages.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_stage_is_read_with_its_runs_groups_and_constants(tmp_path: Path) -> None:
    (stage,) = read_stages(written(tmp_path, STAGE))
    (factor,) = stage.factors
    assert factor.keys == (("era", "fsdp", "compute_derate"), ("runtime", "fsdp", "compute_derate"))
    weighed = {"source": "x", "peak_mem_gib": 3.0, "memory_kind": "device", "era": "fsdp"}
    asked = [run(), run(experts=8), run(source="x"), run(**weighed), run(**{**weighed, "memory_kind": ""})]
    assert [stage.wanted(one) for one in asked] == [True, False, False, True, False]
    assert stage.group(run()) == ("m", 2.0)


def test_a_condition_that_is_not_given_asks_for_nothing() -> None:
    assert WantedRuns().holds(run())


def test_every_shipped_constant_is_fitted_by_one_stage() -> None:
    fitted = [key for stage in stages() for factor in stage.factors for key in factor.keys]
    assert len(set(fitted)) == len(fitted)
    assert set(shipped_values()) <= set(fitted)
    meanings = {factor.key: factor.meaning for stage in stages() for factor in stage.factors}
    own = [entry for entry in all_constants() if (entry.scope, entry.owner, entry.name) in meanings]
    assert {entry.meaning for entry in own} <= set(meanings.values())


def test_all_faults_of_the_file_are_told_at_once(tmp_path: Path) -> None:
    more = (
        "      - {era: fsdpp, name: compute_derat, meaning: x, start: 1, width: 1}\n"
        "      - {name: compute_derate, meaning: x, start: 1, width: 1}\n"
        "      - {era: fsdp, name: compute_derate, meaning: x, start: 1, width: 1}\n"
    )
    with pytest.raises(InputError) as error:
        read_stages(written(tmp_path, STAGE + more))
    told = str(error.value)
    for words in (
        "constants[1].name: found 'compute_derat'",
        "constants[1].owner: found 'fsdpp'",
        "constants[2]: found none of them; expected exactly one of accelerator, site, era, runtime",
        "constants[3]: found compute_derate of era fsdp again",
    ):
        assert words in told


@every(
    ("old", "new", "words"),
    [
        ("[model, tp]", "[modell]", "group[0]"),
        ("start: 0.9", "start: 0", "start: found 0"),
        ("experts: false", "expert: 1", "runs[0].expert: found unknown key"),
    ],
)
def test_a_wrong_stage_says_where(tmp_path: Path, old: str, new: str, words: str) -> None:
    with pytest.raises(InputError) as error:
        read_stages(written(tmp_path, STAGE.replace(old, new)))
    assert words in str(error.value)
