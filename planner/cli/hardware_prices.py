"""``planner hardware prices``: what clouds ask, from SkyPilot's catalogue, and a profile at such a price."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from planner.cli.options import ForceOption, Format, FormatOption, text_option
from planner.cli.output import emit_rows
from planner.cli.printable import to_stderr
from planner.deferred import deferred
from planner.errors import Infeasible, InputError, Problem, nearest
from planner.files import write_whole

with deferred():
    from planner.inputs import load_hardware, price_catalogue

HEADINGS = {"gpus": "GPUs", "usd_per_h": "USD/h"}
LEGEND = "\nUSD/h: one accelerator, in its cheapest region"


def prices_command(
    catalogue: Annotated[
        Path,
        typer.Argument(metavar="FILE.csv", help="A catalogue of SkyPilot, such as catalogs/v8/aws/vms.csv."),
    ],
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[WORD]...", help="Words of the instance or the accelerator: h100."),
    ] = None,
    spot: Annotated[bool, typer.Option("--spot", help="Spot prices, not those on demand.")] = False,
    region: Annotated[
        str, typer.Option(metavar="NAME", help="Only this region. [default: the cheapest]")
    ] = "",
    instance: Annotated[
        str, typer.Option(metavar="NAME", help="The instance whose profile --out writes.")
    ] = "",
    out: Annotated[Path | None, text_option("FILE.yaml", "Write a profile at this price.", "--out")] = None,
    seller: Annotated[
        str, typer.Option(metavar="NAME", help="Who sells it. [default: the catalogue's folder]")
    ] = "",
    force: ForceOption = False,
    output: FormatOption = Format.table,
) -> None:
    """List what a cloud asks for its machines, or write the profile of one at its price.

    The catalogue is a CSV of https://github.com/skypilot-org/skypilot-catalog; nothing is downloaded.
    """
    if bool(instance) != (out is not None):
        given, other = ("--instance", "--out FILE.yaml") if instance else ("--out", "--instance NAME")
        raise InputError(Problem(given, f"no {other.split()[0]}", f"both, such as {other}"))
    found = price_catalogue.read_catalogue(catalogue, region)
    for names, why in ((found.unknown, "do not ship here"), (found.apart, "are sold apart from their hosts")):
        if names:
            to_stderr(f"note: left out, since they {why}: {', '.join(names)}")
    kind = price_catalogue.SPOT if spot else price_catalogue.ON_DEMAND
    offers = [offer for offer in found.offers if offer.kind == kind]
    if out is not None:
        write_profile(out, chosen(offers, instance, catalogue), seller or catalogue.resolve().parent.name,
                      day_of(catalogue), force)  # fmt: skip
        to_stderr(f"wrote {out}; use it with: --hardware {out}")
        return
    rows = [row for row in map(row_of, offers) if matches(row, words or [])]
    if not rows:
        raise Infeasible(f"no {kind} price of an accelerator that ships passes all filters")
    emit_rows(rows, output, HEADINGS, LEGEND)


def row_of(offer: price_catalogue.Offer) -> dict[str, Any]:
    """Return an offer as a row of the list."""
    return {
        "instance": offer.instance,
        "gpus": offer.gpus,
        "accelerator": offer.accelerator,
        "usd_per_h": round(offer.usd_per_h, 4),
        "region": offer.region,
        "cluster": offer.cluster,
    }


def matches(row: dict[str, Any], words: list[str]) -> bool:
    """Whether a row has all words."""
    text = f"{row['instance']} {row['accelerator']} {row['cluster']}".lower()
    return all(word.lower() in text for word in words)


def chosen(offers: list[price_catalogue.Offer], instance: str, catalogue: Path) -> price_catalogue.Offer:
    """Return the offer of an instance.

    Raises `InputError` if there is none.
    """
    for offer in offers:
        if offer.instance.lower() == instance.lower():
            return offer
    near = nearest(instance, (offer.instance for offer in offers))
    raise InputError(Problem("--instance", repr(instance), f"an instance of {catalogue}", near))


def day_of(path: Path) -> str:
    """Return the day on which a file was written, as prices are dated."""
    return f"{datetime.fromtimestamp(path.stat().st_mtime, UTC):%Y-%m-%d}"


def write_profile(out: Path, offer: price_catalogue.Offer, seller: str, day: str, force: bool) -> None:
    """Write the usual cluster of an offer at its price, and load it to see that it is one."""
    base = load_hardware.load_hardware(offer.cluster)
    content: dict[str, object] = {
        "base": base.name,
        "price": f"{offer.usd_per_h:.6g} USD/h",
        "price_date": day,
        "price_seller": f"{seller} {offer.region}".strip(),
        "price_kind": offer.kind,
    }
    if offer.gpus < base.pool.gpus_per_node:
        content["gpus"] = offer.gpus
    head = f"# {offer.instance}, from a catalogue of SkyPilot\n"
    write_whole(out, head + yaml.safe_dump(content, sort_keys=False), force)
    load_hardware.load_hardware(str(out))
