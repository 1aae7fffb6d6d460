"""The accuracy page: scores by hand, rows in their groups, a plot with every row."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from planner.calibrate.runs.defaults import Skip
from planner.calibrate.scores import GROUP_KEYS, Scored
from planner.calibrate.validate import Outcome
from planner.inputs.fitted import all_constants
from tests.lab.accuracy.__main__ import main
from tests.lab.accuracy.lines import Accuracy, line_of, lines_of
from tests.lab.accuracy.page import called, page, worst_table
from tests.lab.accuracy.plot import scatter
from tests.property.test_calibrate import HEAD, row


def outcome(name: str, measured: float | None, predicted: float, **more: object) -> Outcome:
    key = {"source": "s", "model": "llama2-7b", "gpu": "a100-80gb-sxm", "precision": "bf16"} | {
        name: more.pop(name) for name in list(more) if name in GROUP_KEYS
    }
    fields: dict[str, object] = {
        "id": name, "source": key["source"], "key": tuple(key.get(name) for name in GROUP_KEYS),
        "measured_s": measured, "predicted_s": predicted, "naive_s": 1.0, "tokens": 1.0, "measured_gib": None,
        "predicted_gib": None, "memory_kind": "", "measured_oom": False, "predicted_oom": False,
    } | more  # fmt: skip
    return Outcome(Scored(**fields), None, None, "megatron-lm", "megatron-lm", ())  # type: ignore[arg-type]


FOUR = (
    outcome("a", 1.0, 1.1),
    outcome("b", 2.0, 1.8, measured_gib=10.0, predicted_gib=11.0, memory_kind="device"),
    outcome("c", 4.0, 4.8, measured_gib=10.0, predicted_gib=7.0),
    outcome("d", None, 3.0, measured_oom=True),
)


def test_a_line_is_what_a_hand_would_count() -> None:
    line = line_of("all", FOUR)
    assert (line.rows, line.timed, line.ranked_groups) == (4, 3, 1)
    assert line.error == pytest.approx((0.1 + 0.1 + 0.2) / 3)
    assert line.bias == pytest.approx((0.1 - 0.1 + 0.2) / 3)
    assert line.naive == pytest.approx((0 + 0.5 + 0.75) / 3)
    assert line.rank == line.source_rank == 1
    assert line.regret == 0
    assert line.memory_error == pytest.approx((0.1 + 0.3) / 2)
    assert line.memory_rows == 2
    assert line.right == pytest.approx(3 / 4)
    assert called(line) == "75.0% of 4 (1 missed, 0 false OOM)"


def test_a_pick_that_ran_out_of_memory_is_counted_and_has_no_regret() -> None:
    line = line_of("all", [FOUR[0], outcome("e", None, 0.5, measured_oom=True)])
    assert line.picks_oom == 1
    assert line.regret is None


def test_marked_rows_stand_apart() -> None:
    marked = outcome("m", 1.0, 3.0, mark="odd campaign")
    found = Accuracy(6, (*FOUR, marked), (Skip("x", "row 2, column tp: found blank; expected a degree"),), {})
    assert [line.rows for line in found.lines("source")] == [4]
    assert [(line.name, line.error) for line in found.marked()] == [("s: odd campaign", 2.0)]
    assert "odd campaign" not in worst_table(found.worst(10, 10))


def test_the_worst_rows_come_first_and_few_of_one_model() -> None:
    found = Accuracy(4, (*FOUR, outcome("z", 1.0, 1.05, model="gpt")), (), {})
    assert [entry.scored.id for entry in found.worst(10, 1)] == ["c", "z"]


def test_rows_are_sorted_into_lines_by_what_they_share() -> None:
    lines = lines_of(
        (*FOUR, outcome("z", 1.0, 1.5, precision="fp8")), lambda entry: str(entry.scored.key[-1])
    )
    assert [(line.name, line.rows) for line in lines] == [("bf16", 4), ("fp8", 1)]


def test_the_page_has_each_constant_and_no_empty_cell() -> None:
    text = page(Accuracy(4, FOUR, (), {}), "accuracy.svg")
    for constant in all_constants():
        assert f"| {constant.scope} `{constant.owner}` | `{constant.name}` | {constant.meaning} |" in text
    tables = [line for line in text.splitlines() if line.startswith("|")]
    assert all(cell.strip() for line in tables for cell in line.strip("|").split("|"))
    assert "](accuracy.svg)" in text
    assert max(len(line) for line in text.splitlines() if not line.startswith("|")) <= 110


def test_the_plot_has_a_dot_for_each_timed_row_at_its_place() -> None:
    picture = ElementTree.fromstring(scatter([outcome("a", 1.0, 1.0), outcome("b", 10.0, 10.0), FOUR[3]]))
    dots = [path.get("d", "") for path in picture.iter() if path.get("stroke-opacity")]
    (first, second) = re.findall(r"M([\d.]+),([\d.]+)h0", dots[0])
    assert len(dots) == 1
    # One decade is the whole side, from the lower left corner to the upper right one.
    assert float(second[0]) - float(first[0]) == pytest.approx(520)
    assert float(first[1]) - float(second[1]) == pytest.approx(520)


def test_the_program_prints_the_page_and_draws_the_plot(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "runs.csv").write_text("\n".join([HEAD, row(1, 1, 8, 1), row(2, 2, 4, 1)]), encoding="utf-8")
    folds = ["source", "model", "accelerator"]
    assert main([str(tmp_path), "--plot", str(tmp_path / "plot.svg"), "--out-of-fold", *folds]) == 0
    text = capsys.readouterr().out
    assert "error without this source | error, each model left out" in text
    (heads,) = re.findall(r".* error without this accelerator \|.*\n", text)
    assert heads.startswith("| accelerator | rows |")
    assert "| ours | 2 | 2 |" in text
    assert re.search(r"\| error \| error without \|", text)
    ElementTree.fromstring((tmp_path / "plot.svg").read_text(encoding="utf-8"))


def test_a_folder_without_tables_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([str(tmp_path)])
    assert "no run table" in capsys.readouterr().err
