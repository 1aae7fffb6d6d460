"""Shell completion: names as they are typed, and the script that a shell sources."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, Final

import typer
from typer._completion_classes import completion_init
from typer._completion_shared import get_completion_script
from typer._completion_shared import install as add

from planner.deferred import deferred
from planner.fields import FIELDS, Field
from planner.question.reading import Reading

with deferred():
    from planner.inputs import load_hardware

VARIABLE: Final = "_PLANNER_COMPLETE"
"""Environment variable by which a shell asks for words."""
SHELLS: Final = ("bash", "zsh", "fish", "pwsh", "powershell")

Complete = Callable[[str], list[str]]
"""From what is typed so far to the words that it may become."""


def completing(names: Callable[[], Iterable[str]]) -> Complete:
    """Return a completion from names that are only looked up when a shell asks."""

    def words(incomplete: str) -> list[str]:
        return [name for name in names() if name.lower().startswith(incomplete.lower())]

    return words


def _parts() -> Iterable[str]:
    return [*FIELDS["hardware"].names(), *load_hardware.accelerator_names()]


def _techniques(family: str, table: str) -> Callable[[], Iterable[str]]:
    return Field("", table=f"planner.techniques.{family}:{table}").names


model = completing(FIELDS["model"].names)
cluster = completing(FIELDS["hardware"].names)
runtime = completing(FIELDS["runtime"].names)
part = completing(_parts)
sync = completing(_techniques("sync", "SYNCS"))
across = completing(_techniques("sync", "AXES"))
compress = completing(_techniques("compress", "COMPRESSIONS"))


def prepare() -> None:
    """Let a shell ask for words."""
    completion_init()


def completion(
    shell: Annotated[str, typer.Argument(metavar="SHELL", help=f"One of {', '.join(SHELLS)}.")],
    install: Annotated[
        bool, typer.Option("--install", help="Add it to what the shell reads when it starts.")
    ] = False,
) -> None:
    """Print the script that completes commands, options, models, clusters and runtimes in a shell.

    Try it with: source <(planner completion bash). With --install it stays.
    """
    reading = Reading()
    chosen = reading.word("SHELL", shell, SHELLS)
    reading.finish()
    if install:
        name, path = add(shell=chosen, prog_name="planner", complete_var=VARIABLE)
        typer.echo(f"{name} completion is in {path}; it works in the next shell", err=True)
        return
    script = get_completion_script(prog_name="planner", complete_var=VARIABLE, shell=str(chosen))
    typer.echo(script)
