"""The table of commands: each is imported when it is called, so that help costs nothing."""

from __future__ import annotations

import importlib
import itertools
import os
import re
import sys
from collections.abc import Callable, Iterator, MutableMapping
from functools import cache
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from planner.deferred import deferred
from planner.errors import nearest

with deferred():
    from planner.cli import complete, config, synonyms, taken
    from planner.cli import help as help_pages
    from planner.report import plan_file

COMMANDS: Final[dict[str, tuple[str, str, str]]] = {
    "search": ("search", "search", "Rank plans for a model on a cluster."),
    "estimate": ("estimate", "estimate", "Price one plan in full."),
    "explain": ("explain", "explain", "Where a plan's time and memory go, and what would change them."),
    "compare": ("compare", "compare", "Compare plans side by side, or one plan on several clusters."),
    "sweep": ("sweep", "sweep", "Search every case of a grid; resumes where it was stopped."),
    "mfu": ("mfu", "mfu", "Convert a measured speed to MFU and HFU; explain the gap."),
    "diagnose": ("diagnose", "diagnose", "Why a run is slow or dies: causes, and what is faster."),
    "goodput": (
        "goodput",
        "goodput",
        "Training with failures: checkpoint interval, days and cost of a plan.",
    ),
    "resume": ("resume", "resume", "Whether a job can resume under another plan, and what moves."),
    "partition": ("partition", "partition", "Cut any graph of layers into pipeline stages."),
    "balance": ("balance", "balance", "How evenly an attention mask loads the ranks that share a sequence."),
    "cluster": ("cluster", "cluster", "Divide one cluster among several jobs."),
    "budget": ("budget", "budget", "The best model size for a budget of FLOPs, dollars or days."),
    "phases": ("phases", "phases", "A plan for each phase of a training whose sequences grow."),
    "rl": (
        "post_training",
        "rl",
        "Reinforcement learning: who generates, who trains, how long a step takes.",
    ),
    "report": ("report", "report", "A plan or a search as one HTML page with charts."),
    "emit": ("launch", "emit", "Write the launch files of a saved plan."),
    "tune": ("tune", "tune", "Run the best few plans in turn and rank them again as measured."),
    "simulate": ("simulate", "simulate", "Timeline of one step of a pipeline."),
    "validate": ("validate", "validate", "Compare predictions with a table of measured runs."),
    "benchmark": ("benchmark", "app", "Score any predictor of training runs by the same rules."),
    "calibrate": ("calibrate", "calibrate", "Fit a cluster's efficiencies to runs made on it."),
    "profile": ("profile", "profile", "Measure the local device and write its profile."),
    "check": ("check", "check", "Run a plan's kernels on the local device, predicted against measured."),
    "glossary": ("glossary", "glossary", "Meaning of the terms in an answer."),
    "completion": ("complete", "completion", "Print the shell completion script."),
    "config": ("config", "app", "Settings in effect, and which file or variable set them."),
    "models": ("models", "app", "List models, show one in full, import a config.json."),
    "runtimes": ("runtimes", "app", "Runtimes, their releases, and what changes between releases."),
    "hardware": ("hardware", "app", "Clusters and accelerators, and where their numbers come from."),
}
"""Name of a command to its module in this package, what it is called there, and its line of help."""


HELP: Final = ("-h", "--help")
"""What shows the help of a command, or of a group."""

_EXTRA: Final = re.compile(r"unexpected extra argument\(s\) \(([^ ()]+)\)")
"""A word that a command has no place for."""

SPOKEN: Final = frozenset({"model", "hardware"})
"""Parameters that may be given in other words than their own."""


class LazyCommands(MutableMapping[str, Any]):
    """Commands by name; looking one up imports it."""

    def __init__(self) -> None:
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            module, entry, _ = COMMANDS[name]
            found = getattr(importlib.import_module(f"planner.cli.{module}"), entry)
            self._loaded[name] = _command(name, found)
        return self._loaded[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._loaded[name] = command

    def __delitem__(self, name: str) -> None:
        del self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


@cache
def _command(name: str, found: Any) -> Any:
    """Return the command of a function, or of a group that a module has made: once in a process."""
    if isinstance(found, typer.Typer):
        group = found
    else:
        group = typer.Typer(add_completion=False, rich_markup_mode=None)
        group.command(name)(found)
    command = typer.main.get_command(group)
    command.name = name
    for one in (command, *getattr(command, "commands", {}).values()):
        one.context_settings["help_option_names"] = list(HELP)  # it keeps the option that is asked for first
    for leaf in getattr(command, "commands", {name: command}).values():
        _refusing_mistakes(leaf)
        _with_own_help(leaf, "write_help")
        _with_converters_when_said(leaf)
    if hasattr(command, "commands"):
        _with_own_help(command, "write_group")
    return command if isinstance(found, typer.Typer) else _telling(command)


def _refusing_mistakes(command: Any) -> None:
    """Let a command refuse an option that stands where another one's value was forgotten, or stands twice."""
    plain = command.parse_args

    def parse_args(ctx: Any, words: list[str]) -> Any:
        valued = {
            name for option in command.params if not getattr(option, "is_flag", True) for name in option.opts
        }
        own = words[: words.index("--")] if "--" in words else words
        for word, following in itertools.pairwise(own):
            if word in valued and following.startswith("--"):
                ctx.fail(f"Option '{word}' requires an argument; what follows it is '{following}'.")
        if not ctx.resilient_parsing and not set(HELP) & set(own):
            for option in repeated(command, ctx, words):
                ctx.fail(f"Option '{option}' is given more than once, and takes one value.")
        return plain(ctx, words)

    command.parse_args = parse_args


def _with_converters_when_said(command: Any) -> None:
    """Let an option have no converter made where nobody gives it, or it is a text as it stands: most are."""
    plain_help = command.get_help_option

    @cache
    def get_help_option(ctx: Any) -> Any:
        found = plain_help(ctx)
        if found is not None:
            _with_own_converter_when_said(found)
        return found

    command.get_help_option = get_help_option
    for option in command.params:
        _with_own_converter_when_said(option)


def _with_own_converter_when_said(option: Any) -> None:
    plain = option.process_value

    def process_value(ctx: Any, value: Any) -> Any:
        known, found = _as_it_stands(option, value)
        if not known or (option.required and not found):
            return plain(ctx, value)
        return found if option.callback is None else option.callback(ctx, option, found)

    option.process_value = process_value


def _as_it_stands(option: Any, value: Any) -> tuple[bool, Any]:
    """Return whether a value is known without a converter, and what it is then."""
    kind = getattr(getattr(option, "type_descriptor", None), "annotation", None)
    if option.multiple or option.nargs != 1:
        texts = () if value is None else value
        ours = (
            kind == list[str] and isinstance(texts, tuple | list) and all(type(one) is str for one in texts)
        )
        return ours, () if value is None else list(texts) if ours else value
    return value is None or type(value) is kind, value


def _with_own_help(command: Any, writer: str) -> None:
    """Let help be written by a function of the pages of help, which are loaded when it is asked for."""

    def format_help(ctx: Any, formatter: Any) -> None:
        getattr(help_pages, writer)(command, ctx, formatter)

    command.format_help = format_help


def repeated(command: Any, ctx: Any, words: list[str]) -> list[str]:
    """Return the options that stand more than once and take one value; a switch without another side may."""
    order = command.make_parser(ctx).parse_args(list(words))[2]
    options = [one for one in order if one.param_type_name == "option" and not one.multiple and not one.count]
    single = [one for one in options if not one.is_flag or one.secondary_opts]
    return [one.opts[0] for one in dict.fromkeys(single) if single.count(one) > 1]


def _telling(command: Any) -> Any:
    """Let a command say first which of its options come from the configuration."""
    plain = command.invoke

    def invoke(ctx: Any) -> Any:
        config.tell(ctx, config.settings())
        if SPOKEN & set(ctx.params):
            taken.tell_taken(ctx)
        return plain(ctx)

    command.invoke = invoke
    return command


class LazyGroup(TyperGroup):
    """The group of all commands."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = LazyCommands()

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names in the order of the table."""
        return list(COMMANDS)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the lines of help without importing anything."""
        help_pages.write_commands({name: line for name, (_, _, line) in COMMANDS.items()}, formatter)

    def invoke(self, ctx: Any) -> Any:
        """Run a command; what typer would handle in its own way goes to the one handler."""
        try:
            return super().invoke(ctx)
        except (KeyboardInterrupt, EOFError, OSError) as error:
            raise SystemExit(ctx.obj(error)) from None


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"planner {plan_file.tool_version()}")
        raise typer.Exit


app = typer.Typer(
    cls=LazyGroup,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    context_settings={"help_option_names": list(HELP)},
)


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Plan the training of a large model: layouts that fit, speed, cost, and the files that start them.

    Results go to standard output, progress and messages to standard error. Exit codes: 0 done, 1 nothing
    satisfies a valid request, 2 wrong input, 70 internal error, 130 interrupted.
    """


def run(ended: Callable[[BaseException], int]) -> None:
    """Run the command of the process's arguments; ``ended`` tells why a command stopped."""
    asks = {*HELP, "--version"} & set(sys.argv)
    if complete.VARIABLE in os.environ:
        complete.prepare()
        asks = {complete.VARIABLE}
    table = {} if asks else config.default_map(config.settings())
    try:
        command: Any = typer.main.get_command(app)
        _with_converters_when_said(command)
        code = command(prog_name="planner", obj=ended, default_map=table, standalone_mode=False)
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        sys.stderr.write(usage_message(error))
        raise SystemExit(2) from None
    if isinstance(code, int) and code:
        raise SystemExit(code)


def usage_message(error: Any) -> str:
    """Return what is wrong with the words of a command line as one line; the help where there were none."""
    told = error.format_message()
    if type(error).__name__ == "NoArgsIsHelpError":
        return f"{told}\n"
    command = error.ctx.command_path if getattr(error, "ctx", None) is not None else "planner"
    words = " ".join(told.replace("Value error, ", "").split()).rstrip(".")
    words = re.sub(r"\.? (?:\(Possible options: (.*)\)|Did you mean '?(.*?)'?\?)", r"; nearest: \1\2", words)
    words = _with_synonym(words, error)
    return f"error: {command}: {words[:1].lower()}{words[1:]}; see {command} --help\n"


def _with_synonym(words: str, error: Any) -> str:
    """Return a message with what was meant: an option's name here, one spelled alike, or --hardware."""
    option, context = getattr(error, "option_name", None), getattr(error, "ctx", None)
    if context is None:
        return words
    options = [name for one in getattr(context.command, "params", ()) for name in one.opts]
    if "--hardware" in options and (extra := _EXTRA.search(words)):
        return f"{words}; nearest: --hardware {extra[1]}"
    if type(error).__name__ != "NoSuchOption" or not option:
        return words
    plain = {name.lstrip("-"): name for name in options if name.startswith("--")}
    alike = filter(None, nearest(option.lstrip("-"), plain).split(", "))
    hint = synonyms.hint_of(option, context.command) or ", ".join(plain[name] for name in alike)
    return f"{words.partition('; nearest')[0]}{f'; nearest: {hint}' if hint else ''}"
