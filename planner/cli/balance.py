"""``planner balance``: how evenly a mask of attention lies on ranks that share a sequence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from planner.cli.options import Format, OutputOptions, spread, text_option
from planner.cli.output import emit_document, emit_page, emit_rows
from planner.deferred import deferred
from planner.question.reading import Reading
from planner.report.page import Table, significant

with deferred():
    from planner.cost.layer import mask_balance
    from planner.formulas import ring_rounds
    from planner.question import mask as question_mask

if TYPE_CHECKING:
    from planner.cost.layer.mask_balance import Balance
    from planner.report.page import Page

MOST_RING_RANKS = 512
"""Ranks whose pairs are counted in some seconds. [-]"""


@spread
def balance(
    shown: OutputOptions,
    seq_len: Annotated[str, text_option("TOKENS", "Tokens of the sequence: 512K.")],
    cp: Annotated[str, text_option("N", "Ranks that share it.")],
    mask: Annotated[
        str,
        typer.Option(
            metavar="PARTS",
            help="causal, or parts joined by +: columns:N, window:N, slash:DISTANCE:WIDTH, documents:N:N:...",
        ),
    ] = "causal",
    round_times: Annotated[
        str | None,
        text_option(
            "C,FAR[,NEAR]",
            "Times in any unit of the mean rank's attention in a round, of a message over the slowest "
            "hop, and of one inside a domain.",
        ),
    ] = None,
    domain: Annotated[str | None, text_option("G", "Ranks that fast links join. [default: 8]")] = None,
) -> None:
    """Compare token layouts for an attention mask: load of the busiest rank over the mean, also by round.

    Each round of a ring waits for the busiest rank. Zigzag suits dense causal attention, stripes suit sparse
    patterns. Queries are sampled evenly; their keys are counted.
    """
    from planner.techniques.layouts import TOKEN_LAYOUTS

    reading = Reading()
    seq, ranks = (
        reading.length("--seq-len", seq_len),
        reading.count("--cp", cp, least=2, most=MOST_RING_RANKS),
    )
    known = reading.attempt(question_mask.read_mask, mask)
    times = read_times(reading, round_times)
    near = reading.count("--domain", domain) or 8
    if seq is not None and ranks is not None and seq % (2 * ranks):
        multiple = max(1, seq // (2 * ranks)) * 2 * ranks
        reading.fault("--seq-len", str(seq), f"a multiple of twice --cp, {2 * ranks}", str(multiple))
    if ranks is not None and ranks % min(near, ranks):
        reading.fault("--domain", str(near), f"ranks that divide --cp {ranks}")
    reading.finish()
    if seq is None or ranks is None or known is None:
        raise AssertionError("a fault was not told")
    rows = [
        _row(name, mask_balance.balance(known, layout, seq, ranks), ranks, times, min(near, ranks))
        for name, layout in TOKEN_LAYOUTS.items()
    ]
    if shown.output is Format.json:
        head = {"schema": "planner/balance/1", "seq_len": seq, "cp": ranks, "mask": mask}
        emit_document(head | {"layouts": rows})
    elif shown.output is Format.csv:
        emit_rows(rows, shown.output)
    else:
        emit_page(_page(rows, seq, ranks, mask), shown.output)


def read_times(reading: Reading, text: str | None) -> tuple[float, ...]:
    """Return the times of a round, none where none are given or one is wrong."""
    if text is None:
        return ()
    found = tuple(reading.number("--round-times", part, 0.0) for part in text.split(","))
    if len(found) not in (2, 3):
        reading.fault("--round-times", repr(text), "two or three times, C,FAR[,NEAR]", "0.51,0.98,0.13")
    return tuple(one for one in found if one is not None)


def _row(name: str, found: Balance, ranks: int, times: tuple[float, ...], near: int) -> dict[str, Any]:
    """Return a layout's figures; times are those of rounds that wait for the busiest rank."""
    row: dict[str, Any] = {
        "layout": name, "density": found.density, "busiest_rank": found.whole, "ring_rounds": found.ring,
    }  # fmt: skip
    if times:
        compute = times[0] * found.ring
        row["one_ring_time"] = float(ring_rounds.flat_ring_seconds(ranks, compute, times[1]))
        if len(times) == 3:
            row["nested_rings_time"] = float(
                ring_rounds.nested_ring_seconds(ranks, near, compute, times[2], times[1])
            )
    return row


def _page(rows: list[dict[str, Any]], seq: int, ranks: int, mask: str) -> Page:
    """Return the figures for people."""
    best = min(rows, key=lambda row: float(row["ring_rounds"]))
    head = (
        f"{mask} over {seq:,} tokens on {ranks} ranks, {rows[0]['density']:.1%} of causal attention: "
        f"a ring is most even by {best['layout']}."
    )
    words = {"busiest_rank": "busiest rank", "ring_rounds": "rounds of a ring"}
    words |= {"one_ring_time": "one ring", "nested_rings_time": "nested rings"}
    table = tuple(
        {"layout": str(row["layout"])}
        | {title: significant(row[name], 3) for name, title in words.items() if name in row}
        for row in rows
    )
    return [head, Table(table), "Work of the busiest rank over the mean, in all and with rounds that wait."]
