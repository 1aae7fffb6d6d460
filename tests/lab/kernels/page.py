"""Tables of the fitted curves for the documentation, so that a page and the files never differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

File = Mapping[str, Any]
Lines = Iterator[Sequence[str]]

ERRORS = ("mean_error", "p90_error", "held_out_error", "naive_error")


def gemm_lines(files: Sequence[File]) -> Lines:
    """Yield the rows of the table of matrix products."""
    yield (
        *("accelerator", "type", "efficiency", "lasting", "half k", "half m, n", "waves", "quantisation"),
        *("rows", "mean", "p90", "held out", "constant"),
    )
    for file in files:
        for dtype, entry in file["gemm"].items():
            measured = "sustained_rows" in entry
            lasting = entry["sustained_ratio"] + ("" if measured else " *")
            cast = (
                "" if dtype == "bf16" else f"{entry['quantisation_bytes']} + {entry['quantisation_launch']}"
            )
            constants = (entry["half_k"], entry["half_mn"], entry["wave_weight"])
            errors = (entry[name] for name in ERRORS)
            yield (
                *(file["accelerator"], dtype, entry["efficiency"], lasting, *constants, cast),
                *(str(entry["rows"]), *errors),
            )


def attention_lines(files: Sequence[File]) -> Lines:
    """Yield the rows of the table of fused attention."""
    yield (
        *("accelerator", "type", "head size", "kernel", "efficiency", "half keys", "own keys", "rows"),
        *("mean", "p90", "held out", "constant"),
    )
    for file in files:
        for dtype, heads in file["attention"].items():
            for head_dim, entry in heads.items():
                names = ("kernel", "efficiency", "half_keys", "shared_half_keys")
                constants = (*(entry[name] for name in names), str(entry["rows"]))
                yield file["accelerator"], dtype, head_dim, *constants, *(entry[name] for name in ERRORS)


def experts_lines(files: Sequence[File]) -> Lines:
    """Yield the rows of the table of expert layers."""
    yield (
        *("accelerator", "type", "launch", "rate", "memory", "activations", "tokens", "rows"),
        *("mean", "p90", "held out", "constant"),
    )
    for file in files:
        for dtype, entry in file["experts"].items():
            names = ("launch", "rate_share", "memory_efficiency", "activation_efficiency", "token_bytes")
            constants = [entry[name] for name in names]
            errors = (entry[name] for name in ERRORS)
            yield file["accelerator"], dtype, *constants, str(entry["rows"]), *errors


def collectives_lines(files: Sequence[File]) -> Lines:
    """Yield the rows of the table of collectives."""
    yield (
        *("accelerator", "operation", "ranks", "launch", "bandwidth", "ramp", "rows"),
        *("mean", "from 1 MiB", "held out", "constant"),
    )
    for file in files:
        for operation, table in file["collectives"]["nccl"].items():
            for ranks, entry in table["ranks"].items():
                constants = (entry["launch"], entry["bandwidth"], entry["ramp"], str(entry["rows"]))
                names = ("mean_error", "mean_error_from_1_mib", "held_out_error", "naive_error")
                yield file["accelerator"], operation, ranks, *constants, *(entry[name] for name in names)


TABLES = {
    "gemm": gemm_lines,
    "attention": attention_lines,
    "experts": experts_lines,
    "collectives": collectives_lines,
}


def markdown(lines: Lines) -> str:
    """Return rows, the first of them the head, as a Markdown table."""
    head, *body = lines
    rule = ["---"] * len(head)
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, rule, *body))


def with_tables(page: str, files: Sequence[File]) -> str:
    """Return ``page`` with each table between its two marks made anew."""
    for name, lines in TABLES.items():
        start, end = f"<!-- {name} -->\n", "\n<!-- end -->"
        before, mark, rest = page.partition(start)
        after = rest[rest.index(end) :] if mark else ""
        page = before + mark + (markdown(lines(files)) + after if mark else "")
    return page
