"""Searches in processes: each answers, one that dies or raises has failed alone, nothing is left behind."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from planner.sweep.executors import ExecutorSettings, executors
from planner.sweep.row import FAILED, FITS
from planner.sweep.solve import solve
from tests.helpers import ROOT
from tests.unit.sweep_rows import badly

RUN = executors()["local"].run


def outcomes(*requests: Any, jobs: int = 2) -> dict[str, Any]:
    work: Any = [(f"{number} {request}", request) for number, request in enumerate(requests)]
    return dict(RUN(work, badly, ExecutorSettings(jobs)))


def test_a_process_that_dies_takes_no_other_case_along() -> None:
    found = outcomes("slow", "kill", "a", "slow", "b")
    assert [(key, found[key].status) for key in sorted(found)] == [
        ("0 slow", FITS),
        ("1 kill", FAILED),
        ("2 a", FITS),
        ("3 slow", FITS),
        ("4 b", FITS),
    ]
    assert "was ended" in str(found["1 kill"].reason)


def test_an_error_is_an_outcome_and_threads_are_one_in_each_process() -> None:
    before = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = "3"
    try:
        found = outcomes("raise", "a", jobs=1)
        assert os.environ["OMP_NUM_THREADS"] == "3"
    finally:
        os.environ.pop("OMP_NUM_THREADS")
        os.environ.update({"OMP_NUM_THREADS": before} if before is not None else {})
    assert found["0 raise"].status == FAILED
    assert found["0 raise"].reason == "LookupError: no such thing"
    assert found["1 a"].best == {"said": "a", "threads": "1"}


def test_modules_that_lie_in_the_folder_are_not_run(tmp_path: Path) -> None:
    for name in ("multiprocessing", "signal", "numpy"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'run')!r}, 'w')\n", encoding="utf-8")
    grid = "model: llama3-8b\nhardware: dgx-h100\ngpus: [8, 16]\ntp: 8\nruntime: fsdp\n"
    (tmp_path / "grid.yaml").write_text(grid, encoding="utf-8")
    start = tmp_path / "program" / "start.py"
    start.parent.mkdir()
    words = "from planner.__main__ import main\nif __name__ == '__main__':\n    main()\n"
    start.write_text(words, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(start), "sweep", "grid.yaml", "--jobs", "2", "--quiet"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode in (0, 1), done.stderr
    assert "was ended" not in done.stdout
    assert not (tmp_path / "run").exists()


def test_a_sweep_that_is_left_ends_its_processes_at_once() -> None:
    work: Any = [(str(number), "slow") for number in range(50)]
    found = RUN(work, badly, ExecutorSettings(2))
    next(found)
    assert multiprocessing.active_children()
    found.close()
    assert not multiprocessing.active_children()


def test_a_search_that_raises_is_an_outcome() -> None:
    outcome = solve(None)  # type: ignore[arg-type]
    assert outcome.status == FAILED
    assert str(outcome.reason).startswith("AttributeError")
