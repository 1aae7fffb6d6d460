"""Options that several commands share, each defined once: records whose fields a command takes as its own."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self, TypeVar, get_type_hints

import typer

from planner.cli.complete import completing
from planner.dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from planner.fields import ASKED_AXES, JOB, Field


class Format(StrEnum):
    """How an answer is printed."""

    table = "table"
    json = "json"
    csv = "csv"
    markdown = "markdown"


def text_option(metavar: str, told: str, *flags: str) -> Any:
    """Return an option that takes a text, None where it is not given; ``told`` is its help."""
    return typer.Option(*flags, metavar=metavar, help=told, show_default=False)


def command_group(told: str) -> typer.Typer:
    """Return a group of commands; ``told`` is its help."""
    return typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None, help=told)


PlanArgument = Annotated[
    Path,
    typer.Argument(
        metavar="PLAN", help="A plan file saved by `search` or `estimate`, or - for standard input."
    ),
]
FormatOption = Annotated[Format, typer.Option("--format", help="Output format.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no notes.")]
VerboseOption = Annotated[
    bool, typer.Option("--verbose", "-v", help="Print the whole answer, and progress on standard error.")
]
ForceOption = Annotated[bool, typer.Option("--force", help="Overwrite existing files.")]
StepTimeOption = Annotated[str | None, text_option("S", "Measured seconds of an optimizer step.")]
TokenRateOption = Annotated[str | None, text_option("X", "Measured tokens/s of all accelerators.")]


Text = str | None
Texts = list[str] | None
R = TypeVar("R", bound="Written")


def option_of(field: Field, shown: bool = False) -> Any:
    """Return the option of a field, or its argument; ``shown`` adds the default to the help."""
    words = completing(field.names) if field.table else None
    if not field.flag.startswith("--"):
        return typer.Argument(metavar=field.metavar, help=field.text, autocompletion=words)
    if field.kind == "switch":
        return typer.Option(f"{field.flag}/--no-{field.flag[2:]}", help=field.text, show_default=shown)
    return typer.Option(
        field.flag, metavar=field.metavar, help=field.text, show_default=shown, autocompletion=words
    )


@dataclass(frozen=True)
class Written:
    """Fields as the user wrote them: None where nothing was said."""

    if TYPE_CHECKING:

        def __init__(self, *words: Any, **values: Any) -> None: ...
        def __getattr__(self, name: str) -> Any: ...

    @property
    def said(self) -> Mapping[str, Any]:
        """The fields by name."""
        return vars(self)

    def but(self, **values: Any) -> Self:
        """Return the same with some fields written otherwise."""
        return replace(self, **values)


def of_fields(fields: Iterable[Field]) -> Callable[[type[R]], type[R]]:
    """Return what makes a record with an option for each of some fields."""

    def made(kind: type[R]) -> type[R]:
        own: dict[str, Any] = {}
        for field in fields:
            written: Any = bool | None if field.kind == "switch" else Texts if field.several else Text
            is_option = field.flag.startswith("--")
            own[field.name] = Annotated[written if is_option else str, option_of(field)]
            if is_option:
                setattr(kind, field.name, None)
        kind.__annotations__ = own
        return dataclass(frozen=True)(kind)

    return made


@of_fields(JOB)
class JobOptions(Written):
    """What is planned: model, clusters, workload and runtimes, as the user wrote them."""


@of_fields(ASKED_AXES)
class PlanOptions(Written):
    """Axes of a plan that the user has set, as written."""


@dataclass(frozen=True)
class OutputOptions:
    """How an answer is printed, and what is told beside it."""

    output: FormatOption = Format.table
    quiet: QuietOption = False
    verbose: VerboseOption = False


def spread(function: Callable[..., None]) -> Callable[..., None]:
    """Return a command that takes the fields of its records as options of its own.

    Parameters
    ----------
    function : callable
        Its parameters are records of options, which are spread, and options, which stay.

    Returns
    -------
    callable
        With a signature that typer reads.
    """
    hints = get_type_hints(function, include_extras=True)
    parameters: list[inspect.Parameter] = []
    records: dict[str, type[Any]] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if is_dataclass(hints[name]):
            records[name] = hints[name]
            parameters += _fields_as_parameters(hints[name])
        else:
            kind = inspect.Parameter.KEYWORD_ONLY
            parameters.append(parameter.replace(annotation=hints[name], kind=kind))

    @wraps(function)
    def command(**values: Any) -> None:
        built = {
            name: kind(**{field.name: values.pop(field.name) for field in fields(kind)})
            for name, kind in records.items()
        }
        function(**built, **values)

    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command


def _fields_as_parameters(record: type[Any]) -> list[inspect.Parameter]:
    hints = get_type_hints(record, include_extras=True)
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.default is MISSING else field.default,
            annotation=hints[field.name],
        )
        for field in fields(record)
    ]
