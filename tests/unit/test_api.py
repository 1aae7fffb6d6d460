"""The Python API answers as the command line does, refuses as it does, and costs nothing until it is used."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import planner
from planner import api
from planner.inputs.model_yaml import model_yaml
from planner.techniques.schedules import SCHEDULES
from tests.cases import every
from tests.cli.command import planner as command
from tests.helpers import ROOT, user_environment

JOB = planner.Job(
    planner.load_model("llama3-8b"),
    planner.load_hardware("dgx-h100"),
    16,
    planner.Workload(seq_len=4096, global_batch=64),
)
ASK = ("llama3-8b", "--hardware", "dgx-h100", "--gpus", "16", "--seq-len", "4096", "--global-batch", "64")
RUNS = ROOT / "tests" / "measured" / "runs" / "llm_foundry.csv"
PLAN = planner.estimate_plan(JOB, tp=4, pp=2, sequence_parallel=True, zero=1)


def test_importing_costs_nothing_and_every_name_is_there(tmp_path: Path) -> None:
    heavy = ("numpy", "pydantic", "yaml", "typer", "scipy")
    program = (
        "import sys, planner\n"
        f"assert not [name for name in {heavy!r} if name in sys.modules]\n"
        "assert all(hasattr(planner, name) for name in planner.__all__)\n"
        "assert set(planner.__all__) <= set(dir(planner))\n"
    )
    subprocess.run([sys.executable, "-c", program], env=user_environment(tmp_path), check=True)
    with pytest.raises(AttributeError, match="no attribute 'serch_plans'"):
        _ = planner.serch_plans  # type: ignore[attr-defined]


def test_a_name_that_is_close_is_told() -> None:
    with pytest.raises(AttributeError, match="did you mean plan_mfu"):
        _ = planner.mfu


def test_no_public_name_is_that_of_a_module_of_the_package() -> None:
    modules = {path.stem for path in (ROOT / "planner").iterdir()}
    assert not modules & set(planner.__all__)


@every("name", planner.__all__)
def test_every_name_is_described_and_typed(name: str) -> None:
    found = getattr(planner, name)
    assert inspect.getdoc(found)
    if inspect.isfunction(found):
        for parameter in inspect.signature(found).parameters.values():
            assert parameter.annotation is not inspect.Parameter.empty
        assert inspect.signature(found).return_annotation is not inspect.Signature.empty


def test_an_estimate_is_that_of_the_command_line() -> None:
    axes = ("--tp", "4", "--pp", "2", "--sequence-parallel", "--zero", "1")
    told = command("estimate", *ASK, *axes, "--format", "json").json
    assert planner.as_document(PLAN) == told | {"defaults": {}}


def test_other_names_of_what_a_workload_names_are_understood() -> None:
    """A workload may be made with any spelling that the command line takes."""
    jobs = [
        replace(
            JOB, workload=planner.Workload(seq_len=4096, global_batch=64, optimizer=name, precision=dtype)
        )
        for name, dtype in (("adam8bit", "bf16"), ("adam-8bit", "bfloat16"))
    ]
    plain, other = (planner.estimate_plan(job, "fsdp", zero=3) for job in jobs)
    assert planner.as_document(plain) == planner.as_document(other)


def test_a_search_is_that_of_the_command_line() -> None:
    found = planner.search_plans(JOB, top=2, tp=2)
    told = command("search", *ASK, "--top", "2", "--tp", "2", "--format", "json").json
    plans = [plan["plan"] for plan in planner.as_document(found)["plans"]]
    assert plans == [plan["plan"] for plan in told["plans"]]
    assert all(plan["tp"] == 2 for plan in plans)


def test_an_explanation_adds_up_and_is_a_document() -> None:
    told = planner.explain_plan(PLAN)
    assert sum(part.seconds for part in told.parts) == pytest.approx(PLAN.step)
    assert planner.as_document(told)["schema"] == "planner/explain/1"


def test_a_played_step_has_the_stages_and_passes_of_the_plan() -> None:
    record = planner.simulate_plan(PLAN)
    assert [stage.forwards for stage in record.stages] == [32, 32]
    assert record.makespan == pytest.approx(PLAN.step, rel=0.05)


def test_a_made_order_fills_zero_bubble_s_lower_bound() -> None:
    """Two ranks, equal passes: 3 m of work, and 1 until the second rank can start, which no order avoids."""
    made = planner.synthesise_schedule(2, 4, [(1, 1, 1)], time_limit=5)
    assert made.incumbent == pytest.approx(3 * 4 + 1)
    assert made.proved
    assert [len(passes) for passes in made.orders] == [3 * 4, 3 * 4]
    with pytest.raises(planner.InputError, match=r"(?s)pp: .*microbatches: .*pass_times: .*objective: "):
        planner.synthesise_schedule(0, 0, [(1,)], objective="speed")
    with pytest.raises(planner.Infeasible):
        planner.synthesise_schedule(2, 4, [(1, 1, 1)], memory_limit=0.5)


def test_a_saved_plan_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    planner.save_plan(PLAN, path)
    saved = planner.load_plan(path)
    assert (saved.plan, saved.job, saved.changed) == (PLAN.plan, JOB, ())
    with pytest.raises(planner.InputError, match="does not exist yet"):
        planner.save_plan(PLAN, path)
    planner.save_plan(PLAN, path, force=True)


def test_a_plan_for_part_of_a_node_or_less_memory_is_read_back(tmp_path: Path) -> None:
    job = replace(JOB, hardware=planner.load_hardware("dgx-h100", gpus_per_node=4))
    answer = planner.estimate_plan(job, tp=4, memory_limit=70 * 2**30)
    planner.save_plan(answer, tmp_path / "plan.yaml")
    saved = planner.load_plan(tmp_path / "plan.yaml")
    assert saved.job == job
    assert saved.names.memory_limit == 70 * 2**30


def test_a_model_that_does_not_ship_is_not_saved_under_a_name_that_does(tmp_path: Path) -> None:
    changed = JOB.model.model_copy(update={"vocab": JOB.model.vocab + 64})
    answer = planner.estimate_plan(replace(JOB, model=changed), tp=4)
    with pytest.raises(planner.InputError, match="loads the model of this plan"):
        planner.save_plan(answer, tmp_path / "plan.yaml")
    assert not list(tmp_path.iterdir())


def test_launch_files_are_those_of_the_command_line(tmp_path: Path) -> None:
    planner.save_plan(PLAN, tmp_path / "plan.yaml")
    written = planner.emit_plan(PLAN, tmp_path / "api", launcher="slurm")
    assert (
        command(
            "emit", str(tmp_path / "plan.yaml"), "--launcher", "slurm", "--out", str(tmp_path / "cli")
        ).code
        == 0
    )
    ours = {path.name: path.read_text() for path in written}
    assert ours == {path.name: path.read_text() for path in (tmp_path / "cli").iterdir()}


def test_launch_files_outlive_the_model_file_that_they_were_made_from(tmp_path: Path) -> None:
    own = tmp_path / "mine.yaml"
    own.write_text(model_yaml(JOB.model))
    model = planner.load_model(str(own))
    answer = planner.estimate_plan(replace(JOB, model=model), tp=4)
    planner.emit_plan(answer, tmp_path / "out", model=str(own))
    own.unlink()
    assert planner.load_plan(tmp_path / "out" / "plan.yaml").job.model == model


def test_a_plan_that_does_not_fit_is_written_only_where_that_is_asked(tmp_path: Path) -> None:
    answer = planner.estimate_plan(JOB, zero=1, micro_batch=4)
    assert not answer.feasible
    with pytest.raises(planner.Infeasible):
        planner.emit_plan(answer, tmp_path / "out", force=True)
    assert planner.emit_plan(answer, tmp_path / "out", unfit=True)


def test_runtimes_take_traits_as_the_command_line_does() -> None:
    runtime = planner.load_runtime("torchtitan", attention="flash-2", compiled=True, compute_derate=0.9)
    assert (
        runtime.traits.attention.kernel,
        runtime.traits.kernels.compiled,
        runtime.traits.kernels.compute_derate,
    ) == (
        "flash-2",
        True,
        0.9,
    )
    slow = planner.estimate_plan(JOB, planner.load_runtime(compute_derate=0.5), tp=4)
    assert slow.step > planner.estimate_plan(JOB, tp=4).step


@every("schedule", sorted(SCHEDULES))
def test_a_plan_of_one_stage_is_priced_under_every_schedule(schedule: str) -> None:
    """With no other stage there is nothing to wait for, and nothing to divide by."""
    answer = planner.estimate_plan(JOB, tp=4, schedule=schedule)
    plain = planner.estimate_plan(JOB, tp=4)
    assert 0.8 * plain.step <= answer.step <= 1.2 * plain.step


def test_runs_are_validated(tmp_path: Path) -> None:
    table = tmp_path / "runs.csv"
    table.write_text(
        "id,model,gpu,num_gpus,seq_len,global_batch,tp,pp,micro_batch,framework,precision,step_time_s\n"
        "a,llama3-8b,h100-80gb-sxm,16,4096,64,4,2,1,megatron-lm,bf16,2.0\n"
    )
    document = planner.validate_runs(table)
    assert (document["rows"], document["priced"]) == (1, 1)
    printed = command("validate", str(RUNS), "--format", "json")
    assert planner.validate_runs(RUNS) == printed.json
    with pytest.raises(planner.InputError, match="readable file"):
        planner.validate_runs(tmp_path / "none.csv")


@every(
    ("axes", "words"),
    [
        ({"tpp": 4}, "nearest: tp"),
        ({"tp": 0}, "^tp: found 0"),
        ({"tp": 3}, "accelerators"),
        ({"schedule": "1f2b"}, "nearest: 1f1b"),
        ({"tp": 0, "cp": -1, "zero": 4}, "(?s)^tp: .*\\ncp: .*\\nzero: "),
    ],
)
def test_wrong_axes_are_refused_with_all_faults(axes: dict[str, object], words: str) -> None:
    for function in (planner.estimate_plan, planner.search_plans):
        with pytest.raises(planner.InputError, match=words):
            function(JOB, **axes)


def test_what_has_no_price_is_told_by_its_rules() -> None:
    with pytest.raises(planner.UnsupportedPlan, match="batch-divides"):
        planner.estimate_plan(JOB, micro_batch=64)


@every(
    ("call", "words"),
    [
        (lambda: planner.load_model("llama3-9b"), "llama3-8b"),
        (lambda: planner.load_hardware("dgx-h10"), "dgx-h100"),
        (lambda: planner.load_hardware("dgx-h100", gpus_per_node=3), "divisor"),
        (lambda: planner.load_runtime("torchtitn"), "nearest: torchtitan"),
        (lambda: planner.load_runtime(attention="flash"), "flash-3"),
        (lambda: planner.search_plans(JOB, objective="speed"), "objective"),
        (lambda: planner.search_plans(JOB, oom_risk=2), "oom_risk"),
    ],
)
def test_wrong_names_are_refused(call: object, words: str) -> None:
    with pytest.raises(planner.InputError, match=words):
        call()  # type: ignore[operator]


def test_the_api_exports_what_the_package_does() -> None:
    assert set(planner.__all__) - planner.NOTEBOOK <= set(api.__all__)
    assert set(planner.__all__) >= planner.NOTEBOOK


def test_the_reference_page_has_every_name_with_its_first_line_and_parameters() -> None:
    page = (ROOT / "docs" / "reference" / "api.md").read_text(encoding="utf-8")
    sections = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL))
    assert set(sections) == set(planner.__all__)
    for name, text in sections.items():
        found = getattr(planner, name)
        first = " ".join((inspect.getdoc(found) or "").split("\n\n")[0].split()).replace("``", "`")
        assert first in " ".join(text.split())
        if inspect.isfunction(found):
            assert all(parameter in text for parameter in inspect.signature(found).parameters)


def test_launch_files_start_a_smoke_run_where_that_is_asked(tmp_path: Path) -> None:
    planner.save_plan(PLAN, tmp_path / "plan.yaml")
    written = planner.emit_plan(PLAN, tmp_path / "api", smoke=True)
    done = command("emit", str(tmp_path / "plan.yaml"), "--smoke", "--out", str(tmp_path / "cli"))
    assert done.code == 0
    ours = {path.name: path.read_text() for path in written}
    assert ours == {path.name: path.read_text() for path in (tmp_path / "cli").iterdir()}
    planner.emit_plan(PLAN, tmp_path / "real")
    assert ours["train.sh"] != (tmp_path / "real" / "train.sh").read_text()
