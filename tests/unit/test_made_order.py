"""An order made for a plan: read back from its file, it takes what is told, and fits."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from planner.cost.estimate import Estimate, estimate
from planner.errors import InputError
from planner.plan import Plan
from planner.report.made_order import MadeOrder, best_first, can_be_made, made_order, made_orders
from planner.report.plan_file import Names, plan_yaml, read_plan_file
from planner.report.played import far_steps
from planner.runtimes import runtimes
from planner.search.result import SearchResult
from planner.simulate.plan import play_plan
from planner.techniques.schedules.engine import play
from planner.techniques.schedules.family import Pass
from planner.units import GIB
from tests.cases import every
from tests.cli.command import planner
from tests.unit.runner_jobs import DENSE, job

TITAN = runtimes()["torchtitan"]
PLAN = Plan(
    pp=4, dp=2, num_microbatches=8, zero=2, zero_shards=2, schedule="zb-1p", stage_layers=(9, 9, 8, 6)
)


def priced(plan: Plan = PLAN, limit: float | None = None) -> Estimate:
    work = job(DENSE, gpus=8, seq_len=2048, global_batch=int(plan.num_microbatches * plan.dp))
    return estimate(plan, work, TITAN, limit)


def made_for(answer: Estimate) -> MadeOrder:
    made = made_order(answer, 2.0, 0.05)
    assert made is not None
    return made


def read_back(text: str) -> tuple[tuple[Pass, ...], ...]:
    kinds = {"F": "F", "I": "B", "W": "W"}
    rows = []
    for line in text.splitlines():
        words = [
            next((word, place) for place in range(len(word)) if word[place] in kinds)
            for word in line.split(",")
        ]
        rows.append(
            tuple(Pass(kinds[word[at]], int(word[:at]), int(word[at + 1 :])) for word, at in words)  # type: ignore[arg-type]
        )
    return tuple(rows)


def test_the_file_plays_as_it_is_told_and_beats_the_schedule() -> None:
    answer = priced()
    made, played = made_for(answer), play_plan(PLAN, answer.job, TITAN)
    again = replace(played, timeline=play(read_back(made.text), played.pipeline))
    assert again.step == pytest.approx(made.step, rel=1e-12)
    assert made.known == played.step
    assert made.bound <= made.step < made.known
    assert made.kept


def test_a_made_order_stays_within_the_memory() -> None:
    roomy = made_for(priced())
    tight = made_for(priced(limit=priced().peak * 1.1))
    assert tight.peak <= priced().peak * 1.1 < roomy.peak
    assert tight.step >= roomy.step


def test_an_order_that_gains_nothing_is_left_out() -> None:
    even = Plan(pp=2, dp=4, num_microbatches=1, zero=2, zero_shards=4, schedule="zb-1p")
    made = made_for(priced(even))
    assert made.step == pytest.approx(made.known)
    assert not made.kept


def test_only_runtimes_that_read_an_order_get_one() -> None:
    answer = priced()
    assert can_be_made(answer)
    assert not can_be_made(replace(answer, runtime=runtimes()["megatron-lm"]))
    assert not can_be_made(priced(Plan(dp=8, num_microbatches=2, zero=3, zero_shards=8)))
    assert made_orders([replace(answer, runtime=runtimes()["deepspeed"])], 1.0, 0.05) == ()


def test_plans_are_ranked_with_their_orders() -> None:
    slow = priced()
    made = made_for(slow)
    between = replace(slow, step=(made.step + slow.step) / 2)
    found = searched((between, None), (slow, None))
    assert best_first(found, [made]).plans[0] is slow
    assert best_first(found, []).plans[0] is between


def searched(*rows: tuple[Estimate, float | None]) -> SearchResult:
    plans, played = tuple(answer for answer, _ in rows), tuple(seconds for _, seconds in rows)
    baseline = (("plain", rows[0][0]),)
    return SearchResult(plans, baseline, 9, 9, 9, 9, 0, {}, None, 1.0, 1.0, {}, played=(*played, 77.0))


def test_plans_without_an_order_are_ranked_by_their_played_step_and_keep_it() -> None:
    """A price of 9 s that plays in 20 comes after one of 10, and after a made order of 11 in place of 30."""
    nine, ten, slow = (replace(priced(), step=step) for step in (9.0, 10.0, 12.0))
    made = replace(made_for(priced()), answer=slow, known=30.0, step=11.0)
    found = best_first(searched((nine, 20.0), (ten, None), (slow, 30.0)), [made])
    assert [plan.step for plan in found.plans] == [10.0, 12.0, 9.0]
    assert found.played == (None, 30.0, 20.0, 77.0)
    assert [one.seconds for one in far_steps(found)] == [30.0, 20.0, 77.0]
    assert [one.answer.step for one in far_steps(found)][:2] == [12.0, 9.0]


def test_an_order_that_gains_nothing_ranks_no_plan() -> None:
    one, other = replace(priced(), step=10.0), replace(priced(), step=11.0)
    useless = replace(made_for(priced()), answer=other, known=9.0, step=9.0)
    assert best_first(searched((one, None), (other, None)), [useless]).plans[0] is one


@every("version", TITAN.versions)
@every(("schedule", "vpp", "name"), [("1f1b", 1, "PipelineScheduleMulti"), ("zb-v", 2, "ZBVZeroBubble")])
def test_the_command_names_the_file_once(version: str, schedule: str, vpp: int, name: str) -> None:
    plan = replace(PLAN, schedule=schedule, vpp=vpp, stage_layers=(8,) * 4 if vpp == 1 else (4,) * 8)
    assert TITAN.order_command is not None
    command = TITAN.order_command(plan, priced(plan).job, version, "0F0\n")
    words = list(command.program)
    flag = "--parallelism.pipeline_parallel_schedule"
    assert words.count(flag) == words.count(f"{flag}_csv") == 1
    assert words[words.index(flag) + 1] == name
    assert words[words.index(f"{flag}_csv") + 1] == "schedule.csv"
    assert (command.files or {})["schedule.csv"] == "0F0\n"
    assert "--compile.enable" not in words
    assert not any(
        "enable = true" in text.split("[compile]")[-1].split("[")[0]
        for text in (command.files or {}).values()
        if "[compile]" in text
    )


SEARCH = ("search", "llama2-7b", "--hardware", "dgx-h100", "--gpus", "8", "--seq-len", "4096")


def test_a_search_makes_orders_and_writes_them(tmp_path: Path) -> None:
    words = (*SEARCH, "--global-batch", "16", "--runtime", "torchtitan", "--pp", "4", "--synthesize", "3")
    done = planner(*words, "--format", "json", "--emit", str(tmp_path / "out"))
    assert done.code == 0, done.err
    first = done.json["synthesis"][0]
    assert first["kept"]
    assert first["bound_s"] <= first["synthesized_step_s"] < first["schedule_step_s"]
    assert first["peak_bytes"] <= done.json["plans"][0]["memory"]["capacity_gib"] * GIB
    assert (tmp_path / "out" / "schedule.csv").read_text().count("\n") == 4
    assert "Orders made for plans, which rank with the faster of both steps:" in planner(*words).out


def test_a_saved_plan_holds_its_order(tmp_path: Path) -> None:
    words = (*SEARCH, "--global-batch", "16", "--runtime", "torchtitan", "--pp", "4", "--synthesize", "3")
    file, out, again = tmp_path / "best.yaml", tmp_path / "out", tmp_path / "again"
    done = planner(*words, "--format", "json", "--save", str(file), "--emit", str(out))
    assert done.code == 0, done.err
    played = planner("simulate", str(file), "--format", "json").json
    assert played["schedule"] == "synthesized"
    assert played["makespan"] == pytest.approx(done.json["synthesis"][0]["synthesized_step_s"], rel=1e-12)
    assert "an order made for it" in planner("simulate", str(file)).out.replace("\n", " ")
    assert planner("emit", str(file), "--out", str(again)).code == 0
    card, peak = (again / "README.md").read_text(), max(row["peak_gib"] for row in played["stages"])
    assert f"| step time | {played['makespan']:.4g} s |" in card
    assert f"| device memory in use | {peak:.1f} of " in card
    assert (out / "README.md").read_text() == card
    assert (again / "schedule.csv").read_text() == (out / "schedule.csv").read_text()
    assert "plays the order that the plan holds" in planner("explain", str(file)).err
    assert f"note: {file}: figures are those of" in planner("compare", str(file), str(file)).err
    elsewhere = planner("emit", str(file), "--out", str(tmp_path / "no"), "--target", "megatron-lm")
    assert elsewhere.code == 1


@pytest.mark.skipif(find_spec("plotly") is None, reason="plotly is not installed")
def test_a_page_says_that_its_figures_are_not_those_of_the_order(tmp_path: Path) -> None:
    made, file, page = made_for(priced()), tmp_path / "plan.yaml", tmp_path / "page.html"
    names = Names("llama2-7b", "dgx-h100")
    file.write_text(plan_yaml(made.answer.job, TITAN, made.answer.plan, names, made.text))
    assert planner("report", str(file), "--out", str(page)).code == 0
    assert "Note: figures are those of zb-1p; simulate plays the order" in page.read_text()


@every(
    ("old", "new", "found"),
    [("0F0,", "", "1 pass missing"), ("0F0,", "0F0,0F0,", "0F0 twice"), ("0F0", "3F0", "3F0 on rank 0"),
     ("0F0", "0X0", "'0X0'"), ("0F0,0F1", "0F0,0I0,0F1", "0I0 twice")],
)  # fmt: skip
def test_an_order_that_is_not_the_plans_is_refused(tmp_path: Path, old: str, new: str, found: str) -> None:
    made = made_for(priced())
    names = Names("llama2-7b", "dgx-h100")
    text = plan_yaml(made.answer.job, TITAN, made.answer.plan, names, made.text.replace(old, new, 1))
    (tmp_path / "plan.yaml").write_text(text)
    with pytest.raises(InputError) as told:
        read_plan_file(tmp_path / "plan.yaml")
    assert "order" in told.value.problems[0].where
    assert found in told.value.problems[0].found


def moved(row: str, word: str, after: str) -> str:
    """A rank's order with one pass right after another."""
    return ",".join(item for item in row.split(",") if item != word).replace(after, f"{after},{word}", 1)


@every(
    ("changes", "found"),
    [
        ({0: ("0F1", "0W1")}, "too early"),
        ({0: ("0I0", "0F0"), 3: ("3I0", "3F1")}, "deadlock between ranks"),
    ],
)
def test_an_order_that_never_ends_is_refused_by_every_command(
    tmp_path: Path, changes: dict[int, tuple[str, str]], found: str
) -> None:
    made = made_for(priced())
    rows = made.text.splitlines()
    for rank, (word, after) in changes.items():
        rows[rank] = moved(rows[rank], word, after)
    file = tmp_path / "plan.yaml"
    names = Names("llama2-7b", "dgx-h100")
    file.write_text(plan_yaml(made.answer.job, TITAN, made.answer.plan, names, "\n".join(rows)))
    for words in (("simulate",), ("explain",), ("emit", "--out", str(tmp_path / "out"))):
        done = planner(words[0], str(file), *words[1:])
        assert done.code == 2, done.err
        assert found in done.err
        assert "plan.yaml: order: found " in done.err


def test_files_for_another_runtime_have_its_own_schedule(tmp_path: Path) -> None:
    words = (*SEARCH, "--global-batch", "16", "--runtime", "torchtitan", "--pp", "4", "--schedule", "1f1b")
    more = ("--synthesize", "2", "--zero", "0", "--emit", str(tmp_path / "out"), "--target", "megatron-lm")
    done = planner(*words, *more)
    assert done.code == 0, done.err
    assert "schedule.csv" not in {path.name for path in (tmp_path / "out").iterdir()}


@every(
    ("more", "expected"),
    [
        (("--synthesize", "3"), "a runtime that takes made orders: torchtitan"),
        (("--runtime", "torchtitan", "--synthesize", "0"), "--synthesize"),
        (("--runtime", "torchtitan", "--synthesize", "soon"), "--synthesize"),
    ],
)
def test_what_cannot_be_made_is_refused(more: tuple[str, ...], expected: str) -> None:
    done = planner(*SEARCH, "--global-batch", "16", *more)
    assert done.code == 2
    assert expected in done.err
