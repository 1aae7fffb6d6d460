"""What a command's options were taken for, told on standard error."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from planner.cli.printable import to_stderr
from planner.deferred import deferred
from planner.fields import FIELDS
from planner.question.reading import BINARY, Reading

with deferred():
    from planner.inputs import lent_numbers as models
    from planner.inputs import load_hardware as clusters

LENGTHS: Final = ("seq_len", "document_tokens", "max_tokens_per_rank", "global_batch", "global_batch_tokens")
"""Options whose K is 1,024 and M 1,048,576."""

_SCALED = re.compile(r"[\d.,_]+\s*[kKmM]")


def taken_notes(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a command's options were taken for, where they are not written in their own words."""
    for kind, note_of in (("model", models.model_note), ("hardware", clusters.note_of)):
        texts = values.get(kind)
        found = [texts] if isinstance(texts, str) else texts if isinstance(texts, list | tuple) else []
        yield from filter(None, (note_of(text) for text in dict.fromkeys(found) if isinstance(text, str)))
    for name in (*LENGTHS, "tokens"):
        text = values.get(name)
        if isinstance(text, str) and _SCALED.fullmatch(text.strip()):
            yield from _number(name, text.strip())


def _number(name: str, text: str) -> Iterator[str]:
    option, letter = FIELDS[name].flag, text[-1].upper()
    value = Reading().amount(name, text, binary=name in LENGTHS)
    if value is not None:
        scale = BINARY[letter.lower()] if name in LENGTHS else 1000 if letter == "K" else 10**6
        yield f"{option} {text} is {value:,.0f} ({letter} is {scale:,})"


def tell_taken(context: Any) -> None:
    """Say on standard error what a command's options were taken for; a configured count yields to nodes."""
    values = context.params
    source = context.get_parameter_source("gpus")
    if values.get("nodes") is not None and source is not None and source.name == "DEFAULT_MAP":
        values["gpus"] = None
    if not values.get("quiet"):
        for note in taken_notes(values):
            to_stderr(f"note: {note}")
