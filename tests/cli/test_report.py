"""``planner report``: what the page holds, that it needs nothing beside itself, and what it refuses."""

from __future__ import annotations

import json
import re
import sys
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from planner.report.html import page_html
from planner.report.html_figures import front, memory_figure, pareto_figure, waterfall_figure
from planner.report.html_search import search_report
from tests.cases import every
from tests.cli.command import Done, planner
from tests.cli.test_explain import JOB, piped, save

SMALL_JOB = ("gpt2", "--hardware", "dgx-h100", "--gpus", "8", "--seq-len", "1024", "--global-batch", "16")

needs_plotly = pytest.mark.skipif(
    find_spec("plotly") is None, reason="plotly is not installed: pip install 'parallelism-planner[report]'"
)


class Outline(HTMLParser):
    """Headings, cells, and addresses of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.headings: list[str] = []
        self.cells: list[str] = []
        self.loaded: list[str] = []
        self.plots: list[str] = []
        self._inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        self._inside = tag
        self.loaded += [str(named[name]) for name in ("src", "href") if named.get(name)]
        if named.get("class") == "plot":
            self.plots.append(str(named["id"]))

    def handle_data(self, data: str) -> None:
        if self._inside in ("h1", "h2") and data.strip():
            self.headings.append(data.strip())
        if self._inside == "td" and data.strip():
            self.cells.append(data.strip())


def figures_of(text: str) -> dict[str, Any]:
    found = re.search(r"^const figures = (\{.*\});$", text, re.MULTILINE)
    assert found is not None
    return dict(json.loads(found[1]))


@pytest.fixture(scope="module")
def found() -> Done:
    return planner("search", *JOB, "--top", "4", "--format", "json")


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    axes = ("--tp", "4", "--pp", "2", "--vpp", "2", "--sequence-parallel", "--zero", "1")
    return save(tmp_path_factory.mktemp("plans") / "plan.yaml", *axes)


@needs_plotly
def test_the_page_of_a_plan_holds_its_pictures_and_numbers(tmp_path: Path) -> None:
    axes = ("--tp", "2", "--pp", "2", "--vpp", "2", "--sequence-parallel", "--zero", "1")
    plan = save(tmp_path / "plan.yaml", *axes, job=SMALL_JOB)
    out = tmp_path / "plan.html"
    with mock.patch("planner.cli.report.POINTS", 2):
        done = planner("report", str(plan), "--search", "--out", str(out))
    assert (done.code, done.out) == (0, "")
    text = out.read_text(encoding="utf-8")
    assert out.stat().st_size < 8e6
    page = Outline(text)
    assert page.loaded == []
    assert page.plots == [
        "plot-waterfall", "plot-memory", "plot-timeline", "plot-scaling", "plot-front", "plot-neighbours",
    ]  # fmt: skip
    assert set(page.plots) == set(figures_of(text))
    told = planner("explain", str(plan), "--format", "json").json
    bars = figures_of(text)["plot-waterfall"]["data"][0]
    step = told["estimate"]["step_time_s"]
    assert sum(bars["x"][:-1]) == pytest.approx(step)
    assert bars["x"][-1] == step
    stack = figures_of(text)["plot-memory"]["data"]
    totals = [sum(part["y"][stage] for part in stack) for stage in range(2)]
    assert totals == pytest.approx([stage["total_gib"] for stage in told["estimate"]["memory"]["stages"]])
    capacity = figures_of(text)["plot-memory"]["layout"]["shapes"][0]["y0"]
    assert capacity == told["estimate"]["memory"]["capacity_gib"]
    dp_changed, best, _ = figures_of(text)["plot-scaling"]["data"]
    assert set(dp_changed["x"]) <= set(best["x"])
    assert all(
        rate <= best["y"][best["x"].index(gpus)]
        for gpus, rate in zip(dp_changed["x"], dp_changed["y"], strict=True)
    )
    for heading in ("Bottlenecks", "Inputs and their sources", "How far to trust this"):
        assert heading in page.headings


@needs_plotly
def test_the_timeline_plays_every_pass_once(plan: Path, tmp_path: Path) -> None:
    out = tmp_path / "plan.html"
    planner("report", str(plan), "--out", str(out))
    assert "plot-front" not in figures_of(out.read_text(encoding="utf-8"))
    data = figures_of(out.read_text(encoding="utf-8"))["plot-timeline"]["data"]
    played = {trace["name"]: len(trace["x"]) for trace in data}
    assert played["forward"] == played["backward"] == 2 * 2 * 32
    for trace in data:
        assert min(trace["x"]) > 0
        assert min(trace["base"]) >= 0


@needs_plotly
def test_plans_and_searches_are_read_from_standard_input_too(plan: Path, found: Done, tmp_path: Path) -> None:
    for text, heading in ((plan.read_text(), "Where the step goes"), (found.out, "Baselines")):
        out = tmp_path / "piped.html"
        assert piped(text, "report", "-", "--out", str(out), "--force").code == 0
        assert heading in Outline(out.read_text(encoding="utf-8")).headings


@needs_plotly
def test_the_page_of_a_search_ranks_its_plans(found: Done, tmp_path: Path) -> None:
    source, out = tmp_path / "search.json", tmp_path / "search.html"
    source.write_text(found.out)
    assert planner("report", str(source), "--out", str(out)).code == 0
    text = out.read_text(encoding="utf-8")
    page, figures = Outline(text), figures_of(text)
    assert {"Plans", "Time and memory", "Baselines", "What the rules removed"} <= set(page.headings)
    assert set(figures) == {"plot-pareto", "plot-terms", "plot-memory"}
    plans = found.json["plans"]
    points = next(trace for trace in figures["plot-pareto"]["data"] if trace["name"] == "plans")
    assert points["x"] == [row["step_time_s"] for row in plans]
    bars = figures["plot-terms"]["data"]
    for rank, row in enumerate(plans):
        assert sum(trace["x"][rank] for trace in bars) == pytest.approx(row["step_time_s"])


@needs_plotly
def test_the_front_of_a_search_is_drawn_where_it_was_searched(found: Done) -> None:
    document = found.json
    plain = search_report(document, "search.json", "0")
    document["front"] = [{"plan": document["plans"][0]["plan"], "step_time_s": 9.0, "peak_gib": 5.0}]
    drawn = search_report(document, "search.json", "0")
    names = [
        [
            trace["name"]
            for block in page.blocks
            if block.id == "plot-pareto"
            for trace in block.figure["data"]
        ]
        for page in (plain, drawn)
    ]
    assert "fastest at a limit" not in names[0]
    assert "fastest at a limit" in names[1]


@needs_plotly
def test_a_name_cannot_leave_its_place_in_the_page(found: Done) -> None:
    document = found.json
    document["plans"][0]["model"]["name"] = "</script><script>alert(1)</script>"
    text = page_html(search_report(document, "search.json", "0"))
    assert "<script>alert" not in text
    assert text.count("<script>") == 2


@needs_plotly
def test_a_search_in_which_nothing_fits_has_a_page(tmp_path: Path) -> None:
    ask = ("llama3-70b", "--hardware", "dgx-h100", "--gpus", "8", "--memory-limit", "20")
    done = planner("search", *ask, "--format", "json")
    assert done.code == 1
    source, out = tmp_path / "none.json", tmp_path / "none.html"
    source.write_text(done.out)
    assert planner("report", str(source), "--out", str(out)).code == 0
    assert "No plan fits." in out.read_text(encoding="utf-8")


def test_without_plotly_the_extra_is_named(
    plan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("plotly", "plotly.offline"):  # a patched dictionary would lose what is imported meanwhile
        monkeypatch.setitem(sys.modules, name, None)
    done = planner("report", str(plan), "--out", str(tmp_path / "x.html"))
    assert done.code == 2
    assert "parallelism-planner[report]" in done.err
    assert not (tmp_path / "x.html").exists()


@every(
    ("text", "words"),
    [
        ('{"schema": "planner/estimate/1"}', "planner/search/1"),
        ('{"schema": "planner/search/1", "plans": [{}], "baselines": []}', "whole document"),
        ('{"schema": "planner/search/1", "plans": []}', "baselines: found nothing"),
        ("{}", "no schema"),
        ('{"schema": ', "no JSON"),
        ("model: llama3-8b\n", "format"),
        ("", ""),
    ],
)
def test_what_is_neither_plan_nor_search_is_refused(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "input"
    path.write_text(text)
    done = planner("report", str(path), "--out", str(tmp_path / "out.html"))
    assert done.code == 2
    assert words in done.err
    assert "Traceback" not in done.err
    assert not (tmp_path / "out.html").exists()


def test_the_front_is_what_nothing_beats() -> None:
    points = [(3.0, 1.0), (1.0, 5.0), (2.0, 2.0), (2.5, 2.0), (4.0, 0.5), (4.0, 6.0)]
    best = front(points)
    for point in points:
        beaten = any(x <= point[0] and y <= point[1] and (x, y) != point for x, y in points)
        assert (point in best) is not beaten


def test_small_parts_of_a_waterfall_share_a_bar() -> None:
    figure = waterfall_figure([("large", 9.0), ("tiny", 0.001), ("other", 0.999), ("nothing", 0.0)], 10.0)
    (trace,) = figure["data"]
    assert trace["y"] == ["large", "other", "smaller parts", "the step"]
    assert sum(trace["x"][:-1]) == pytest.approx(10)


def test_only_plans_that_fit_are_on_the_front() -> None:
    groups = {"plans": [("a", 1.0, 90.0), ("b", 2.0, 50.0), ("c", 3.0, 40.0)]}
    line = pareto_figure(groups, 80.0)["data"][0]
    assert (line["x"], line["y"]) == ([2.0, 3.0], [50.0, 40.0])


def test_the_capacity_line_is_in_the_picture() -> None:
    parts = ("weights", "gradients", "optimizer", "activations", "workspace", "reserve", "framework")
    stage = {"stage": 0, "total_gib": 7.0} | {f"{part}_gib": 1.0 for part in parts}
    layout = memory_figure([stage], 80.0)["layout"]
    assert layout["yaxis"]["range"][1] > 80
    assert layout["shapes"][0]["y0"] == 80


def test_the_page_of_a_search_tells_what_was_refined_solved_and_what_no_split_mends(found: Done) -> None:
    """In the words of the terminal, from numbers that are written into the document here."""
    document = found.json
    short = {"plan": "pp4 dp2", "stage": 3, "needs_gib": 91.25, "has_gib": 79.5}
    solver = {
        "seconds": 1.25, "gain": 0.03, "uniform_step_s": 8.5, "gain_is_within_error": False, "note": "",
    }  # fmt: skip
    document["optimality"] |= {
        "refined": 41, "solver": solver, "proved": False, "gap": 0.02, "bound_s": 6.5, "played_bound_s": 5.5,
        "proof": "no plan in this space that fits is more than 2.00% faster",
    }  # fmt: skip
    page = search_report(document, "search.json", "0")
    assert page.blocks[1].kind == "tiles"
    lines = " ".join(line for block in page.blocks for line in block.lines)
    assert f"from {document['plans'][0]['error_band_basis']}." in lines
    for words in (
        "Candidates refined: 41.",
        "saves 3.00% of the best uniform plan's 8.5 s",
        "By this model, no plan in this space that fits is more than 2.00% faster.",
        "every refined plan takes at least 5.5 s",
    ):
        assert words in lines, (words, lines)
    document["plans"] = []
    document["nearest"] = {
        "peak_gib": 91.25,
        "missing_gib": 12.0,
        "gpus": None,
        "changes": [],
        "split": short,
    }
    document["optimality"] |= {"refined": 0, "solver": None}
    (told, *_) = search_report(document, "search.json", "0").blocks
    assert "However its layers are split, pp4 dp2 needs at least 91.2 GiB on stage 3" in " ".join(told.lines)


@needs_plotly
def test_what_there_was_no_time_for_stands_on_the_page_and_in_the_notes(plan: Path, tmp_path: Path) -> None:
    out = tmp_path / "plan.html"
    done = planner("report", str(plan), "--search", "--time-limit", "0", "--out", str(out))
    assert (done.code, done.out) == (0, "")
    assert "note: no time for time against memory\n" in done.err
    text = out.read_text(encoding="utf-8")
    assert "Not searched: the time was over (--time-limit)" in Outline(text).headings
    assert "plot-front" not in figures_of(text)
    assert planner("report", str(plan), "--time-limit", "soon", "--out", str(out)).code == 2


def sliders_of(text: str) -> dict[str, Any]:
    found = re.search(r"^const sliders = (\{.*\});$", text, re.MULTILINE)
    assert found is not None
    return dict(json.loads(found[1]))


@needs_plotly
def test_sliders_show_what_a_search_finds_at_each_stop(plan: Path, tmp_path: Path) -> None:
    out = tmp_path / "plan.html"
    with mock.patch.dict("planner.report.plan_grid.FACTORS", gpus=(1, 2), global_batch=(1,), seq_len=(1,)):
        done = planner("report", str(plan), "--sliders", "--out", str(out))
    assert done.code == 0, done.err
    told = sliders_of(out.read_text(encoding="utf-8"))["sliders"]
    (own, more), (batch,), (length,) = (axis["values"] for axis in told["axes"])
    assert more == 2 * own
    assert set(told["plans"]) == {f"{own},{batch},{length}", f"{more},{batch},{length}"}
    job = ("--gpus", str(more), "--global-batch", str(batch), "--seq-len", str(length), "--top", "1")
    asked = planner("search", "llama3-8b", "--hardware", "dgx-h100", *job, "--format", "json").json
    seconds = dict(told["plans"][f"{more},{batch},{length}"])["step"].removesuffix(" s")
    assert float(seconds) == pytest.approx(asked["plans"][0]["step_time_s"], rel=2e-3)


@needs_plotly
def test_sliders_without_time_say_so(plan: Path, found: Done, tmp_path: Path) -> None:
    out = tmp_path / "plan.html"
    assert planner("report", str(plan), "--sliders", "--time-limit", "0", "--out", str(out)).code == 0
    text = out.read_text(encoding="utf-8")
    assert len(sliders_of(text)["sliders"]["plans"]) == 1
    assert "as many as --time-limit allowed" in text
    refused = piped(found.out, "report", "-", "--sliders", "--out", str(tmp_path / "no.html"))
    assert (refused.code, "expected a plan file" in refused.err) == (2, True)
