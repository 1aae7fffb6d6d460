"""``planner models``: the zoo, one model in full, and models from other formats."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from planner.cli.complete import model as complete
from planner.cli.options import Format, FormatOption, command_group, text_option
from planner.cli.output import emit_rows
from planner.cli.printable import to_stderr
from planner.errors import Infeasible, InputError, Problem
from planner.files import write_whole
from planner.inputs.hf_config import ImportedModel, read_hf_config, without_encoder
from planner.inputs.load import load_model, model_names
from planner.inputs.model import ModelSpec
from planner.inputs.model_yaml import model_yaml
from planner.inputs.own_block import own_block
from planner.inputs.own_model.read import own_model, read_own_model
from planner.inputs.spoken_model import cached_config, unknown
from planner.report.model_facts import Row, model_facts, model_row, part_rows, run_rows, told_facts
from planner.report.shardings import model_rows, own_rows

app = command_group("Models: what ships, one in full, and from a config.json.")

HEADINGS = {"active_params": "active", "params_per_layer": "a layer", "active_params_per_layer": "active"}
"""Columns of a table, in few letters."""


@app.command("list")
def list_command(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[WORD]...",
            help="Words of the name or the kind: llama, moe, sliding.",
            show_default=False,
        ),
    ] = None,
    output: FormatOption = Format.table,
) -> None:
    """List the models that ship with the planner; words filter the list.

    Exit code 1 means that none is left.
    """
    rows = [model_row(load_model(name)) for name in model_names()]
    rows = [
        row for row in rows if all(word.lower() in f"{row['name']} {row['kind']}" for word in words or ())
    ]
    if not rows:
        raise Infeasible("no model that ships has all these words; planner models list shows what there is")
    _emit(rows, output)


@app.command("show")
def show_command(
    model: Annotated[
        str,
        typer.Argument(
            help="A name, a config.json or its folder, or a model YAML; with --shardings a block's sums too.",
            autocompletion=complete,
        ),
    ],
    shardings: Annotated[
        bool,
        typer.Option("--shardings", help="Show the legal splits of its operators, and their collectives."),
    ] = False,
    ranks: Annotated[
        int, typer.Option(metavar="N", help="Ranks that share a layer, with --shardings.", min=2)
    ] = 8,
    output: FormatOption = Format.table,
) -> None:
    """Show one model: its layers and where its parameters are, or how its layers can be split."""
    if shardings:
        legal, derived = _shardings(model, ranks)
        if output is Format.json:
            parts = {"schema": "planner/shardings/1", "legal": legal, "derived": derived}
            typer.echo(json.dumps(parts, indent=2))
            return
        _show((legal, derived), output)
        return
    spec = load_model(model)
    if output is Format.json:
        typer.echo(json.dumps(model_facts(spec), indent=2))
        return
    _show((told_facts(spec), run_rows(spec), part_rows(spec)), output)


def _shardings(model: str, ranks: int) -> tuple[list[Row], list[Row]]:
    """Return both tables of a model's blocks, or of the block of one's own that a file says."""
    if (block := own_block(model)) is not None:
        return own_rows(block, ranks)
    spec = load_model(model)
    if spec.diffusion is not None:
        expected = "a language model: parts of a diffusion transformer are split by rows alone (--cp)"
        raise InputError(Problem("--shardings", spec.name, expected))
    if spec.crosses:
        raise InputError(Problem("--shardings", spec.name, "layers that attend to no other sequence"))
    return model_rows(spec, ranks)


def _show(tables: Sequence[list[Row]], output: Format) -> None:
    for number, rows in enumerate(tables):
        if number:
            typer.echo()
        _emit(rows, output)


def _encoder_notes(model: ModelSpec) -> tuple[str, ...]:
    """Say that an encoder is a part of the model, and what leaves it out."""
    if model.encoder is None:
        return ()
    if model.crosses:
        return (f"its encoder has {model.encoder_params:,} of its parameters",)
    kind = "sound" if model.encoder.name == "audio" else "images"
    what = f"its encoder of {kind}, {model.encoder_params:,} parameters, is a part of the model"
    return (f"{what}: --text-only takes the language model alone",)


@app.command("import")
def import_command(
    path: Annotated[
        Path,
        typer.Argument(
            help="A Hugging Face config.json or its folder, or FILE.py:MODEL, run and exported by torch."
        ),
    ],
    out: Annotated[
        Path | None, text_option("FILE", "The model YAML to write; by default it is printed.")
    ] = None,
    name: Annotated[
        str, typer.Option(metavar="NAME", help="The model's name; by default the folder's.")
    ] = "",
    text_only: Annotated[
        bool, typer.Option("--text-only", help="Leave out an encoder of images or sound.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite a file that exists.")] = False,
) -> None:
    """Write a model YAML from a config.json, exactly or not at all, and list what was assumed.

    Of a Python file the model is built without memory, its layers are folded into known ones, and what is
    left is priced by what it moves and computes.
    """
    own = own_model(str(path))
    imported = ImportedModel(*read_own_model(*own, name)) if own else read_hf_config(_config(path), name)
    if text_only:
        imported = without_encoder(imported)
    text = model_yaml(imported.model)
    for note in (*imported.notes, *_encoder_notes(imported.model)):
        to_stderr(f"note: {note}")
    if out is None:
        typer.echo(text, nl=False)
    else:
        write_whole(out, text, force)
        typer.echo(f"{out}: {imported.model.params:,} parameters", err=True)


def _config(path: Path) -> Path:
    """Return the path, or that of a model of the Hub in the local cache, where a name is given for a path."""
    said = str(path)
    if said.count("/") != 1 or path.suffix in (".json", ".yaml", ".yml") or os.path.lexists(path):
        return path
    if (found := cached_config(said)) is None:
        raise unknown(said, Problem("PATH", repr(said), "a config.json or its folder"))
    return found


def _emit(rows: list[Row], output: Format) -> None:
    if output in (Format.table, Format.markdown):
        rows = [{key: _readable(key, value) for key, value in row.items()} for row in rows]
    emit_rows(rows, output, HEADINGS)


def _readable(key: str, value: Any) -> Any:
    if "params" in key and isinstance(value, int):
        return f"{value / 1e9:.4g} B"
    return f"{value:.1%}" if key == "share" else value
