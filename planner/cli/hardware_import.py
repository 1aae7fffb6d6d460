"""``planner hardware import``: a profile from what nccl-tests, nvidia-smi and ibstat have printed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from planner.cli.options import ForceOption, Format, FormatOption
from planner.cli.output import emit_rows
from planner.cli.printable import to_stderr
from planner.deferred import deferred
from planner.errors import InputError, Problem
from planner.files import write_whole
from planner.inputs.yaml_file import parse_yaml

with deferred():
    from planner.calibrate.kernels import files as kernels_files
    from planner.calibrate.measured import printed
    from planner.inputs import import_logs, load_hardware


def import_command(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...", help="Texts of nccl-tests, nvidia-smi topo -m, nvidia-smi -q, ibstat."
        ),
    ],
    out: Annotated[Path, typer.Option("--out", metavar="FILE.yaml", help="The profile to write.")],
    base: Annotated[
        str,
        typer.Option("--base", metavar="NAME", help="Cluster to start from. [default: the GPUs' usual one]"),
    ] = "",
    in_place: Annotated[
        bool, typer.Option("--in-place", help="Take the in-place times of nccl-tests.")
    ] = False,
    force: ForceOption = False,
    output: FormatOption = Format.table,
) -> None:
    """Write a profile from texts that a machine has printed; no GPU is needed."""
    evidence = printed.gather(_read(files))
    result = printed.imported(evidence, base, out.stem, in_place)
    text = kernels_files.render(result.content)
    write_whole(out, text, force)
    _prove(out, text)
    for note in result.notes:
        to_stderr(f"note: {note}")
    emit_rows(rows_of(result.content), output, legend=f"\nuse it with: --hardware {out}")


def _read(files: list[Path]) -> list[tuple[str, Any]]:
    """Read every text, and tell the faults of all at once."""
    logs: list[tuple[str, Any]] = []
    problems: list[Problem] = []
    for path in files:
        try:
            logs.append((path.name, import_logs.read_log(path)))
        except InputError as error:
            problems += error.problems
    if problems:
        raise InputError(problems)
    return logs


def _prove(out: Path, text: str) -> None:
    """Load what was written, so that a profile that does not load is told now."""
    if not parse_yaml(text, str(out)):
        raise InputError(Problem(str(out), "nothing", "a profile"))
    load_hardware.load_hardware(str(out))


def rows_of(content: Any, place: str = "") -> list[dict[str, Any]]:
    """Return a row for each number that the texts have given."""
    if not isinstance(content, dict):
        return []
    if "value" in content:
        return [{"field": place, **{name: content[name] for name in ("value", "standing", "source")}}]
    found = []
    for name, value in content.items():
        inner = value[0] if name == "pools" else value
        below = place if name == "pools" else f"{place}.{name}".strip(".")
        found += rows_of(inner, below)
        if isinstance(value, int):
            found.append({"field": below, "value": str(value), "standing": "measured", "source": ""})
    return found
