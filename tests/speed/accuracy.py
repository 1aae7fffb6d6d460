"""The accuracy part of the bench: scores of the carried extract, or of the folder that RUNS_DIR names."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from tests.helpers import ROOT
from tests.lab.accuracy.page import scores_table, source_table
from tests.lab.accuracy.runs import accuracy_of, read_folder

EXTRACT = ROOT / "tests" / "measured" / "runs"


def runs_folder() -> Path:
    """Return the folder of run tables: that of the variable RUNS_DIR, or the extract."""
    return Path(os.environ.get("RUNS_DIR", "") or EXTRACT)


def accuracy_lines(folder: Path) -> Iterator[str]:
    """Yield the scores of all run tables of a folder by source, accelerator, runtime and precision."""
    found = accuracy_of(read_folder(folder))
    yield f"{found.rows} measured runs, {len(found.outcomes)} priced"
    yield source_table(found)
    for kind in ("accelerator", "runtime", "precision"):
        yield scores_table(kind, found.lines(kind))


if __name__ == "__main__":
    print("\n".join(accuracy_lines(runs_folder())))
