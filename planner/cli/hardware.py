"""``planner hardware``: what ships, every number of it, and profiles from texts of a machine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final

import typer

from planner.cli.complete import part
from planner.cli.hardware_collectives import collectives_command
from planner.cli.hardware_curves import curve_fields
from planner.cli.hardware_import import import_command
from planner.cli.hardware_prices import prices_command
from planner.cli.options import Format, FormatOption, command_group, text_option
from planner.cli.output import emit_rows
from planner.errors import Infeasible, InputError, Problem
from planner.inputs.hardware import Accelerator, HardwareProfile
from planner.inputs.load_hardware import hardware_folder, load_accelerator, load_hardware
from planner.inputs.record import Record, Sourced
from planner.inputs.shipped import names_and_aliases
from planner.inputs.spoken_cluster import spoken_accelerator
from planner.question.reading import Reading
from planner.report.hardware_facts import accelerator_rows, cluster_rows

app = command_group("Clusters, accelerators and where their numbers come from.")

NameArgument = Annotated[
    str, typer.Argument(help="A cluster, an accelerator, or the path of a profile.", autocompletion=part)
]

Row = dict[str, Any]

HEADINGS: Final = {
    "gpus_per_node": "node",
    "scaleup_domain": "domain",
    "memory_gib": "GiB",
    "memory_tb_per_s": "TB/s",
    "bf16_tflops": "TF/s",
    "nic_gb_per_s": "NIC",
    "power_w": "W",
    "price_usd_per_h": "USD/h",
    "usual_cluster": "usual cluster",
}
"""Columns of a table, in few letters."""

LEGEND: Final = """
node: accelerators that a launcher sees; domain: those joined by the fast links
GiB: visible memory; TF/s: dense 16-bit TFLOP/s; USD/h: one accelerator, dated
NIC: GB/s of network ports for one accelerator; *: weakly sourced, measure first"""

_SKIPPED: Final = frozenset({"name", "aliases", "note"})


@app.command("list")
def list_command(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[WORD]...",
            help="Words of the name, the accelerator or its vendor: nvidia, h100, nvl72.",
            show_default=False,
        ),
    ] = None,
    accelerators: Annotated[
        bool, typer.Option("--accelerators", help="List accelerators, not clusters.")
    ] = False,
    memory: Annotated[str | None, text_option("GIB", "Only those with at least this much memory.")] = None,
    node: Annotated[str | None, text_option("N", "Only nodes of exactly this many accelerators.")] = None,
    price: Annotated[
        str | None,
        text_option("USD", "Only those at or below this hourly price; unpriced ones are left out."),
    ] = None,
    output: FormatOption = Format.table,
) -> None:
    """List the clusters that ship, one line per pool of accelerators; options filter it.

    Exit code 1 means that none is left.
    """
    wanted = read_filters(memory, node, price)
    rows = accelerator_rows() if accelerators else cluster_rows()
    rows = [row for row in rows if passes(row, words or (), wanted)]
    rows = [{key: row[key] for key in row if key != "vendor"} for row in rows]
    if not rows:
        raise Infeasible("nothing that ships passes all filters; planner hardware list shows what there is")
    if output is Format.table:
        rows = [{key: _marked(row, key) for key in row if key != "template"} for row in rows]
    emit_rows(rows, output, HEADINGS, LEGEND)


def read_filters(memory: str | None, node: str | None, price: str | None) -> dict[str, float | None]:
    """Return the filters of a list, by the column that each is of.

    Raises
    ------
    InputError
        With every one that is no number.
    """
    reading = Reading()
    wanted = {
        "memory_gib": reading.number("--memory", memory, 0.0),
        "gpus_per_node": reading.count("--node", node),
        "price_usd_per_h": reading.number("--price", price, 0.0),
    }
    reading.finish()
    return wanted


def passes(row: Row, words: Iterable[str], wanted: Mapping[str, float | None]) -> bool:
    """Whether a row of a list has all words, and enough memory, the node and the price that are asked for."""
    text = " ".join(
        str(row.get(key, "")) for key in ("name", "accelerator", "vendor", "usual_cluster")
    ).lower()
    memory, node, price = (wanted[key] for key in ("memory_gib", "gpus_per_node", "price_usd_per_h"))
    cost = row["price_usd_per_h"]
    return (
        all(word.lower() in text for word in words)
        and (memory is None or row["memory_gib"] >= memory)
        and (node is None or row.get("gpus_per_node") == node)
        and (price is None or (cost is not None and cost <= price))
    )


def _marked(row: Row, key: str) -> Any:
    return f"{row[key]} *" if key == "name" and row["template"] else row[key]


@app.command()
def show(name: NameArgument, output: FormatOption = Format.table) -> None:
    """Show every number of a cluster or accelerator with its unit, source and standing."""
    rows = number_rows(load_either(name))
    if output is not Format.table:
        return emit_rows(rows, output)
    cited = list(dict.fromkeys(row["source"] for row in rows if row["source"]))
    short = [row | {"source": cited.index(row["source"]) + 1 if row["source"] else ""} for row in rows]
    legend = "\n".join(f"{number:3} {source}" for number, source in enumerate(cited, 1))
    return emit_rows(short, output, {}, f"\n{legend}")


@app.command()
def diff(
    name: NameArgument,
    other: Annotated[str, typer.Argument(help="What to compare it with.", autocompletion=part)],
    output: FormatOption = Format.table,
) -> None:
    """Compare two clusters or accelerators field by field; only what differs is printed."""
    emit_rows(different_rows(load_either(name), load_either(other)), output)


app.command("import")(import_command)
app.command("prices")(prices_command)
app.command("collectives")(collectives_command)


def load_either(text: str) -> HardwareProfile | Accelerator:
    """Return the cluster that ``text`` means, or else the accelerator."""
    spoken = spoken_accelerator(text)
    if spoken and text.strip().lower() not in names_and_aliases(hardware_folder()):
        return load_accelerator(spoken)
    return load_hardware(text)


def number_rows(record: Record) -> list[Row]:
    """Return every field of a record: value as its file says it, source and standing where it has them."""
    return [
        {
            "field": field,
            "value": value.text if isinstance(value, Sourced) else value,
            "standing": value.standing if isinstance(value, Sourced) else "",
            "source": value.source if isinstance(value, Sourced) else "",
        }
        for field, value in _leaves(record, "")
    ]


def _leaves(value: Any, place: str) -> list[tuple[str, Any]]:
    """Return the numbers and words below ``value``, each with its path; a part's name stands for the part."""
    if isinstance(value, Record):
        named = [(place or "name", value.name)] if hasattr(value, "name") else []
        note = getattr(value, "note", "")
        notes = [(f"{place}.note".strip("."), note)] if note else []
        fields = [name for name in type(value).model_fields if name not in _SKIPPED]
        inner = [_leaves(getattr(value, name), f"{place}.{name}".strip(".")) for name in fields]
        return [*named, *(leaf for leaves in inner for leaf in leaves), *notes]
    if isinstance(value, dict):
        return [leaf for key, item in value.items() for leaf in _leaves(item, f"{place}.{key}")]
    if isinstance(value, tuple):
        single = len(value) == 1
        return [
            leaf
            for number, item in enumerate(value)
            for leaf in _leaves(
                item, place.removesuffix("pools").strip(".") if single else f"{place}[{number}]"
            )
        ]
    return [] if value is None or value == "" else [(place, value)]


def different_rows(one: Record, other: Record) -> list[Row]:
    """Return the fields in which two records differ, with the ratio of numbers."""
    if type(one) is not type(other):
        kinds = " and ".join(type(record).__name__ for record in (one, other))
        raise InputError(Problem("hardware diff", kinds, "two clusters, or two accelerators"))
    curves = curve_fields(one, other)
    left, right = (
        dict([*_leaves(record, ""), *own]) for record, own in zip((one, other), curves, strict=True)
    )
    return [
        {
            "field": field,
            "first": _said(left.get(field)),
            "second": _said(right.get(field)),
            "ratio": _ratio(left.get(field), right.get(field)),
        }
        for field in [*left, *(name for name in right if name not in left)]
        if left.get(field) != right.get(field) and not field.endswith("note")
    ]


def _said(value: Any) -> Any:
    return value.text if isinstance(value, Sourced) else value


def _ratio(one: Any, other: Any) -> float | None:
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in (one, other))
    return round(other / one, 3) if numbers and one else None
