"""Good inputs beside plans, models and our files: logs, journals, graphs, jobs, sites, files of others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import yaml

from tests.cli.command import Done
from tests.cli.docs_blocks import blocks
from tests.helpers import ROOT
from tests.unit import (
    test_from_file,
    test_from_file_documents,
    test_from_file_formats,
    test_from_file_found,
    test_from_file_megatron_yaml,
    test_from_file_nemo,
    test_from_file_recipes,
    test_from_file_scripts,
    test_from_file_sums,
    test_from_file_trainers,
)

FOLLOW: Final = "FILE"
"""Stands for the broken file in a command."""

LOGS: Final = ROOT / "tests" / "unit" / "data" / "logs"
DOCS: Final = ROOT / "docs" / "how-to"
JOB: Final = ("--hardware", "dgx-h100", "--gpus", "8", "--seq-len", "2048", "--global-batch", "16")

LAUNCH: Final[Mapping[str, str]] = {
    "factory.yaml": test_from_file_trainers.FACTORY,
    "axolotl.yaml": test_from_file_trainers.AXOLOTL,
    "xtuner_config.py": test_from_file_trainers.XTUNER,
    "automodel.yaml": test_from_file_recipes.AUTOMODEL,
    "foundry.yaml": test_from_file_recipes.MPT,
    "mindspeed.sh": test_from_file_found.MINDSPEED + "\n",
    "swift.sh": test_from_file_trainers.SWIFT,
    "zoo.yaml": test_from_file_megatron_yaml.ZOO,
    "primus.yaml": test_from_file_megatron_yaml.PRIMUS,
    "megatron.sh": test_from_file.SCRIPT,
    "document.sh": test_from_file_documents.WRITTEN,
    "slurm.sh": test_from_file_scripts.BLOOM,
    "lines.sh": test_from_file_sums.MEGATRON + "--bf16\n",
    "titan.toml": test_from_file.TITAN,
    "nemo.yaml": test_from_file_formats.NEMO,
    "nemo_recipe.py": test_from_file_nemo.RECIPE.replace("CHANGE", "pass"),
    "nemo_own.py": test_from_file_nemo.OWN.replace("TENSOR", "4"),
    "nanotron.yaml": yaml.safe_dump(test_from_file_formats.NANOTRON),
}
"""Launch files of other people's hands, by name."""

SHOWN: Final[Mapping[str, tuple[str, tuple[tuple[str, ...], ...]]]] = {
    "graph.yaml": ("cut-a-graph.md", (("partition", FOLLOW, "--stages", "3", "--microbatches", "8"),)),
    "jobs.yaml": ("share-a-cluster.md", (("cluster", FOLLOW),)),
    "sites.yaml": ("sites.md", (("hardware", "show", FOLLOW),)),
    "attic.yaml": ("add-a-machine.md", (("hardware", "show", FOLLOW),)),
    "two-rooms.yaml": ("add-a-machine.md", (("hardware", "show", FOLLOW),)),
    "flux.json": ("add-a-model.md", (("models", "import", FOLLOW), ("models", "show", FOLLOW))),
    "planner.yaml": ("configure.md", (("models", "show", "llama3-8b"), ("estimate", "llama3-8b", *JOB))),
    "runs.csv": ("calibrate.md", (("validate", FOLLOW), ("validate", FOLLOW, "--format", "csv"))),
}
"""Files that the documents show: where, and the commands that read them."""

FAILURES: Final = "accelerators,days,failures\n1024,30,12\n2048,14,11\n"
LENGTHS: Final = "length,count\n512,10\n2048,5\n8192,1\n"
TRAINING: Final = "".join(
    f" [2026-01-01 00:00:0{step}] iteration {step}/ 100 | elapsed time per iteration (ms): 410{step}.2 |\n"
    for step in range(1, 5)
)


def others(folder: Path, run: Callable[..., Done]) -> Iterator[tuple[Path, tuple[tuple[str, ...], ...]]]:
    """Yield good files, each with the commands that read it; ``folder`` has a plan in ``plan.yaml``."""
    plan = str(folder / "plan.yaml")
    for name, text in LAUNCH.items():
        ask = (FOLLOW, "--hardware", "dgx-h100")
        commands = (("estimate", "--from", *ask), ("estimate", "llama3-8b", "--from", *ask, "--gpus", "64"))
        yield _file(folder / "launch" / name, text), commands
    for name, (document, readers) in SHOWN.items():
        text = _shown(DOCS / document, name)
        fewer = text.replace("gpus: 64", "gpus: 8")  # 64 take eight seconds to share
        yield _file(folder / "shown" / name, fewer if name == "jobs.yaml" else text), readers
    for log in sorted(LOGS.glob("*.txt")):
        yield log, (("hardware", "import", FOLLOW, "--base", "dgx-h100", "--out", "OUT.yaml"),)
    yield _file(folder / "train.log", TRAINING), (("diagnose", plan, "--log", FOLLOW),)
    losses = (("goodput", plan, "--failures", FOLLOW),)
    yield _file(folder / "failed.csv", FAILURES), losses
    yield ROOT / "failure_profiles" / "llama3.yaml", losses
    lengths = ("estimate", "llama3-8b", *JOB, "--seq-lens", FOLLOW)
    yield _file(folder / "lengths.csv", LENGTHS), (lengths,)
    grid, journal = folder / "grid.yaml", folder / "rows.jsonl"
    if grid.is_file():
        run("sweep", str(grid), "--out", str(journal), "--jobs", "1")
        yield journal, (("sweep", str(grid), "--out", FOLLOW, "--jobs", "1"),)
    yield (
        Path(plan),
        (("resume", plan, FOLLOW), ("resume", FOLLOW, plan), ("check", FOLLOW), ("tune", FOLLOW)),
    )


def _file(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def _shown(document: Path, name: str) -> str:
    """Return the file that a document shows under a name."""
    for block in blocks(document.read_text(encoding="utf-8")):
        if any(note.strip() == f"file: {name}" for note in block.notes):
            return "\n".join(block.lines) + "\n"
    raise LookupError(f"{document} shows no {name}")
