"""Layered configuration: flags, ``PLANNER_*`` variables, the folder's planner.yaml, the user's, defaults."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from platformdirs import user_config_path

from planner.cli.options import Format, FormatOption
from planner.cli.output import emit_rows
from planner.cli.printable import to_stderr
from planner.cli.variables import DEBUG, PREFIX
from planner.dataclasses import dataclass
from planner.deferred import deferred
from planner.errors import InputError, Problem, nearest
from planner.fields import FIELDS
from planner.files import PLAN_FORMAT, is_plan_file

with deferred():
    from planner.inputs import yaml_file

PROJECT_FILE: Final = "planner.yaml"

JOB_COMMANDS: Final = ("search", "estimate", "mfu")
PRINTING: Final = (*JOB_COMMANDS, "explain", "compare", "simulate", "validate")


@dataclass(frozen=True)
class Key:
    """A setting."""

    default: str = ""
    """What is taken where nobody sets it; empty where there is nothing."""
    parameter: str = ""
    """What the commands call it, where not as here."""
    several: bool = False
    """Whether it may be a list."""


KEYS: Final[Mapping[str, Key]] = {
    field.name: Key("" if field.default is None else str(field.default), several=field.several)
    for field in FIELDS.values()
    if field.configured
} | {"launcher": Key("torchrun"), "format": Key("table", parameter="output")}
"""What may be configured, by its name in files; the variable is ``PLANNER_`` and the name in capitals."""


@dataclass(frozen=True)
class ConfiguredSetting:
    """A value and who set it."""

    name: str
    """The setting."""
    value: str | list[str]
    """As its option takes it."""
    origin: str
    """The variable or file that it is from, or ``default``."""

    @property
    def text(self) -> str:
        """The value in one word."""
        return ", ".join(self.value) if isinstance(self.value, list) else self.value


def user_file() -> Path:
    """Return where the user's own settings are read from."""
    return user_config_path("planner") / PROJECT_FILE


def settings() -> dict[str, ConfiguredSetting]:
    """Return every setting that somebody made: the variable before the project's file before the user's.

    Raises `InputError` if a file is wrong, all faults at once.
    """
    found: dict[str, ConfiguredSetting] = {}
    for path in (user_file(), Path(PROJECT_FILE)):
        if path.is_file():
            found |= from_file(path)
    for name, key in KEYS.items():
        variable = f"{PREFIX}{name.upper()}"
        text = os.environ.get(variable, "").strip()
        if text:
            value = [part.strip() for part in text.split(",")] if key.several else text
            found[name] = ConfiguredSetting(name, value, variable)
    return found


def from_file(path: Path) -> dict[str, ConfiguredSetting]:
    """Return the settings of a file; none where it is a plan.

    Raises `InputError` if a key is unknown or a value is no word, number or list of words.
    """
    content = yaml_file.read_yaml(path)
    if str(content.get("format", "")).startswith(PLAN_FORMAT):
        return {}
    problems: list[Problem] = []
    found: dict[str, ConfiguredSetting] = {}
    for name, value in content.items():
        known = KEYS.get(str(name).replace("-", "_"))
        plain = isinstance(value, str | int | float) and not isinstance(value, bool)
        listed = isinstance(value, list) and all(isinstance(item, str | int) for item in value)
        if known is None:
            expected = f"one of {', '.join(KEYS)}"
            problems.append(
                Problem(f"{path}: {name}", "an unknown setting", expected, nearest(str(name), KEYS))
            )
        elif not plain and not (known.several and listed):
            expected = "a word or a number" + (", or a list of words" if known.several else "")
            problems.append(Problem(f"{path}: {name}", repr(value), expected))
        else:
            words = [str(item) for item in (value if listed else [value])]
            key = str(name).replace("-", "_")
            found[key] = ConfiguredSetting(key, words if known.several else words[0], str(path))
    if problems:
        raise InputError(problems)
    return found


def default_map(made: Mapping[str, ConfiguredSetting]) -> dict[str, dict[str, Any]]:
    """Return what commands take where an option is not given, by command and parameter."""
    values = {KEYS[name].parameter or name: setting.value for name, setting in made.items()}
    printed = {name: value for name, value in values.items() if name == "output"}
    table: dict[str, dict[str, Any]] = {name: dict(printed) for name in PRINTING}
    table |= {name: dict(values) for name in JOB_COMMANDS}
    if "launcher" in values:
        table["emit"] = {"launcher": values["launcher"]}
    return table


def tell(context: Any, made: Mapping[str, ConfiguredSetting]) -> None:
    """Say on standard error which options of a command come from the configuration, and from where."""
    model = context.params.get("model")
    if context.params.get("quiet") or not made or (model and is_plan_file(Path(model))):
        return
    taken = [
        f"{name} {setting.text} ({setting.origin})"
        for name, setting in made.items()
        if name != "format" and _is_taken(context, KEYS[name].parameter or name)
    ]
    if taken:
        to_stderr(f"note: configured: {', '.join(taken)}")


def _is_taken(context: Any, parameter: str) -> bool:
    """Whether a command takes a parameter's value from the configuration."""
    source = context.get_parameter_source(parameter)
    return source is not None and source.name == "DEFAULT_MAP"


def unknown_variables() -> list[str]:
    """Return the variables that look like settings and are none, each with the nearest that is one."""
    known = [f"{PREFIX}{name.upper()}" for name in KEYS]
    wrong = sorted(name for name in os.environ if name.startswith(PREFIX) and name not in (*known, DEBUG))
    hints = {name: nearest(name, known) for name in wrong}
    return [f"{name} is no setting{f'; nearest: {near}' if near else ''}" for name, near in hints.items()]


def show(
    origin: Annotated[bool, typer.Option("--origin", help="Show where each value comes from.")] = False,
    output: FormatOption = Format.table,
) -> None:
    """Show every setting as the next command would take it.

    Flags come first, then PLANNER_* variables, planner.yaml in this folder, the user's planner.yaml, and
    last the defaults.
    """
    made = settings()
    every = [made.get(name) or ConfiguredSetting(name, key.default, "default") for name, key in KEYS.items()]
    rows = [
        {"setting": item.name, "value": item.text or None} | ({"origin": item.origin} if origin else {})
        for item in every
    ]
    for line in unknown_variables():
        to_stderr(f"note: {line}")
    legend = f"The user's file is {user_file()}." if origin and output is Format.table else ""
    emit_rows(rows, output, legend=legend)


app = typer.Typer(add_completion=False, rich_markup_mode=None, no_args_is_help=True)
app.command("show")(show)


@app.callback()
def root() -> None:
    """Show the settings that files and variables make."""
