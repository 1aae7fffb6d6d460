"""A YAML of Megatron-MoE-ModelZoo: Megatron-LM's flags, with variables of the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from planner.runtimes.imports.command_line import Training
from planner.runtimes.imports.environment import filled, unset
from planner.runtimes.megatron_lm.reading.megatron_names import flags_of
from planner.units import is_whole

SECTION: Final = "MODEL_ARGS"
GPUS_PER_NODE: Final = 8
"""What ``interactive_benchmarking.sh`` starts on a node where ``GPUS_PER_NODE`` is not set."""


OWN_TEST: Final = "TEST_TYPE"
"""A key of Megatron-LM's own functional tests, which have the same section and another launcher."""

PATHS: Final = ("WORKSPACE", "OUTPUT_PATH", "DATA_PATH", "LOAD_PATH", "WANDB_PROJECT", "COMMENT")
"""Variables of paths and names."""


def is_one(tree: Mapping[str, Any]) -> bool:
    """Return whether a file has a section of Megatron-LM's flags."""
    section = tree.get(SECTION)
    return isinstance(section, Mapping) and any(str(key).startswith("--") for key in section)


def training_from(tree: Mapping[str, Any], path: Path) -> tuple[Training, tuple[str, ...]]:
    """Return the training that a file asks for, and notes on the variables that were followed."""
    section = filled(dict(tree[SECTION]))
    flags = flags_of(section)
    notes: list[str] = []
    missing = [name for name in unset(section) if name not in PATHS]
    if missing:
        first = missing[0]
        notes.append(
            f"not set: {', '.join(missing)}; set them before the command, as in {first}=... planner ..."
        )
    if OWN_TEST not in tree:
        _launcher(flags, notes)
    nodes = os.environ.get("NNODES", "")
    ranks = os.environ.get("GPUS_PER_NODE", str(GPUS_PER_NODE))
    known = is_whole(nodes) and is_whole(ranks)
    return Training(
        "megatron-lm", flags, int(nodes) if known else None, int(ranks) if known else None, None, ()
    ), tuple(notes)


def _launcher(flags: dict[str, str], notes: list[str]) -> None:
    """Add the flags that the repository's launcher adds by its own variables."""
    chunks = os.environ.get("VPP", "")
    cut = {
        "--pipeline-model-parallel-layout",
        "--num-layers-per-virtual-pipeline-stage",
        "--num-virtual-stages-per-pipeline-rank",
    }
    if is_whole(chunks) and int(chunks) > 1 and not cut & set(flags):
        flags["--num-virtual-stages-per-pipeline-rank"] = chunks
        notes.append(f"VPP={chunks}: that many chunks on a rank")
    ends = (os.environ.get("PP_FIRST", ""), os.environ.get("PP_LAST", ""))
    if all(is_whole(end) for end in ends) and "--pipeline-model-parallel-layout" not in flags:
        flags["--decoder-first-pipeline-num-layers"], flags["--decoder-last-pipeline-num-layers"] = ends
        notes.append(f"PP_FIRST={ends[0]}, PP_LAST={ends[1]}: layers of the first and the last stage")
    if os.environ.get("A2A_OVERLAP", "0") != "1":
        flags.setdefault("--overlap-grad-reduce", "")
        flags.setdefault("--overlap-param-gather", "")
