"""Options by the names that other programs give them, and what they are called here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from planner.fields import FIELDS

OTHERS: Final[Mapping[str, str]] = {
    "--gpus or --hardware": "gpu",
    "--global-batch or --micro-batch": "batch batch-size bs",
    "--emit": "out output-dir",
    "--save": "save-plan output o",
    "--format": "json csv markdown output-format fmt",
    "--launcher": "scheduler",
    "--step-time": "step-seconds iteration-time time",
    "--tokens-per-s": "throughput tps tokens-per-second",
}
"""Options that are no field of a question."""

FORMATS: Final = ("json", "csv", "markdown")
"""Formats that people write as options."""

SAID: Final[Mapping[str, str]] = {
    field.flag: field.elsewhere for field in FIELDS.values() if field.elsewhere
} | dict(OTHERS)
"""What an option is called here, and elsewhere."""


def hint_of(option: str, command: Any) -> str:
    """Return what to write for an option that a command lacks; empty where it has nothing of that meaning."""
    word = option.lstrip("-").lower().replace("_", "-")
    meant = next((name for name, others in SAID.items() if word in others.split()), "")
    plain = word.replace("-", "")
    known = [name for one in getattr(command, "params", ()) for name in (*one.opts, one.metavar or "")]
    if meant == "MODEL":
        return "the model without an option, as the first word" if {"MODEL", "[MODEL]"} & set(known) else ""
    if word in FORMATS and "--format" in known:
        return f"--format {word}"
    meant = meant or next((name for name in known if name.replace("-", "") == plain), "")
    return " or ".join(name for name in meant.split(" or ") if name in known)
