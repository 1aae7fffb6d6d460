"""What a question has is declared once: options, grid, plan file, keywords and the plan itself follow."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import get_type_hints

from planner import fields as declared
from planner.cli.config import KEYS
from planner.cli.options import JobOptions, PlanOptions, Written, of_fields
from planner.cli.synonyms import SAID
from planner.fields import ASKED_AXES, AXES, FIELDS, JOB, Field
from planner.inputs.workload import Workload
from planner.plan import Plan
from planner.sweep.grid import OWN_KEYS, Grid
from tests.cases import every

TABLES = [field for field in FIELDS.values() if field.table]


def test_no_field_is_declared_twice() -> None:
    assert len(FIELDS) == len(JOB) + len(AXES) + len(declared.SEARCH)
    assert len({field.flag for field in FIELDS.values()}) == len(FIELDS)


def test_the_axes_are_the_fields_of_a_plan_with_its_defaults() -> None:
    assert {axis.name for axis in AXES} == {field.name for field in fields(Plan)}
    plain = Plan()
    for axis in AXES:
        assert axis.default is None or getattr(plain, axis.name) == axis.default, axis.name
    assert all(field.default is not MISSING for field in fields(Plan))


def test_a_workload_is_made_of_fields_of_a_job() -> None:
    names = {field.name for field in JOB}
    plain = Workload()
    assert set(Workload.model_fields) <= names
    for name in Workload.model_fields:
        assert getattr(plain, name) == FIELDS[name].default, name


def test_a_new_field_is_an_option_with_its_help_and_completion() -> None:
    new = Field(
        "shape", "name", "NAME", "What it is like.", otherwise="round",
        table="planner.techniques.optimizers:OPTIMIZERS",
    )  # fmt: skip

    @of_fields([new])
    class Options(Written):
        """One option."""

    (hint,) = get_type_hints(Options, include_extras=True).values()
    (option,) = hint.__metadata__
    assert (option.default, *option.param_decls) == ("--shape",)
    assert option.help == "What it is like. [default: round]"
    assert option.autocompletion("mu") == ["muon"]
    assert Options().shape is None
    assert Options(shape="muon").but(shape="sgd").shape == "sgd"


def test_every_field_has_its_option_and_stands_in_grids_unless_it_says_otherwise() -> None:
    assert [field.name for field in fields(JobOptions)] == [field.name for field in JOB]
    assert [field.name for field in fields(PlanOptions)] == [field.name for field in ASKED_AXES]
    gridded = {OWN_KEYS.get(name, name) for name, field in FIELDS.items() if field.gridded}
    gridded -= {axis.name for axis in AXES if axis.derived}
    assert set(Grid.model_fields) == gridded
    assert {name for name, field in FIELDS.items() if field.configured} == set(KEYS) - {"launcher", "format"}


@every("field", TABLES, ids=lambda field: field.name)
def test_a_field_takes_names_that_there_are(field: Field) -> None:
    names = list(field.names())
    assert names
    if field.kind == "name" and field.default is not None:
        assert field.default in names
    assert field.name == "model" or field.help


def test_what_other_programs_call_a_field_means_one_option() -> None:
    words = [word for others in SAID.values() for word in others.split()]
    assert len(words) == len(set(words))


@every("axis", [axis for axis in AXES if axis.kind == "count"], ids=lambda axis: axis.name)
def test_bounds_hold_at_every_door(axis: Field) -> None:
    from planner.question.axes import read_axes
    from planner.question.reading import Reading

    if axis.derived:
        return
    for value, fine in (
        (axis.least, True),
        (axis.most, True),
        (axis.least - 1, False),
        (axis.most + 1, False),
    ):
        reading = Reading()
        found = read_axes({axis.name: str(value)}, reading)
        assert (found.get(axis.name) == value) == fine
        assert (not reading.problems) == fine
