"""``search --objective goodput``: plans and recoveries ranked where machines fail."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli.launch import write_best
from planner.cli.options import Format, OutputOptions
from planner.cli.output import emit_document, emit_page, emit_rows
from planner.cli.progress import Progress
from planner.dataclasses import dataclass, replace
from planner.deferred import deferred
from planner.errors import Infeasible
from planner.question.reading import Reading
from planner.units import parse

with deferred():
    from planner.cli import goodput_groups as group_files
    from planner.cli import tables
    from planner.inputs import failures as inputs_failures
    from planner.report import reliability
    from planner.search import goodput

if TYPE_CHECKING:
    from planner.cost.reliability import Reliable
    from planner.question.launched import Launch
    from planner.question.question import Question
    from planner.search.goodput import Conditions, Reckoned
    from planner.search.request import SearchRequest
    from planner.search.result import SearchResult
    from planner.techniques.recovery import Recovery

Text = str | None


def _option(name: str, metavar: str, text: str) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(
        f"--{name}", metavar=metavar, help=text, show_default=False
    )
    return option


@dataclass(frozen=True)
class FailureOptions:
    """How machines fail and what is done about it."""

    failures: Annotated[
        Text, _option("failures", "NAME", "How often machines fail: llama3, meta-a100 or a log as CSV.")
    ] = None
    recovery: Annotated[
        Text,
        _option(
            "recovery",
            "NAME[:TIME]",
            "restart, in-memory, elastic, torchft, checkfree ..., and its pause. [default: best]",
        ),
    ] = None
    storage: Annotated[
        Text, _option("storage", "RATE", "Bandwidth at which checkpoints are written: 40GB/s.")
    ] = None

    @property
    def given(self) -> dict[str, str]:
        """The options that are given, by name."""
        texts = {"--failures": self.failures, "--recovery": self.recovery, "--storage": self.storage}
        return {name: text for name, text in texts.items() if text is not None}


def read_conditions(options: FailureOptions, request: SearchRequest, **unused: object) -> Conditions | None:
    """Return what is known of failures, None where it is not asked for.

    Raises `InputError` with every option that is missing, wrong, or there for another objective.
    """
    reading, objective, method = Reading(), request.objective, request.workload.method
    if objective != "goodput":
        for name in options.given:
            reading.fault(name, f"--objective {objective}", "--objective goodput")
        reading.finish()
        return None
    if options.storage is None:
        reading.fault("--storage", "nothing", "the rate of the storage of checkpoints, such as 40GB/s")
    for name in (name for name, value in unused.items() if value is not None):
        reading.fault(f"--{name}", "with --objective goodput", "another objective, or not this option")
    if method != "full":
        reading.fault(
            "--objective", f"goodput with --method {method}", "--method full, whose state is counted"
        )
    return conditions_of(options, reading)


def conditions_of(options: FailureOptions, reading: Reading) -> goodput.Conditions:
    """Return what is known of failures, of options that belong together.

    Raises `InputError` with every option that is wrong, and the faults noted before.
    """
    rate = read_rate(options.storage, reading)
    profile = reading.attempt(inputs_failures.load_failures, options.failures or "llama3", "--failures")
    found, steps = _recoveries(options.recovery, reading)
    reading.finish()
    if rate is None or profile is None:
        raise AssertionError("a fault was not told")
    return goodput.Conditions(profile, found, rate, steps)


def check_reckoned(found: Reckoned) -> None:
    """Refuse plans that no recovery keeps going.

    Raises `Infeasible` if there is none, with why.
    """
    if not found.plans:
        why = "; ".join(f"{name}: {reason}" for name, reason in found.refused.items())
        raise Infeasible(
            f"no plan gets on with its failures ({why or 'it fails before the next checkpoint'})"
        )


def read_rate(text: str | None, reading: Reading) -> float | None:
    """Return the rate of a storage, or note that it is none. [byte/s]"""
    if text is None:
        return None
    try:
        value = parse(text, "byte/s")
    except ValueError as error:
        reading.fault("--storage", repr(text), f"a rate such as 40GB/s ({error})")
        return None
    if not 0 < value < 1e18:
        reading.fault("--storage", repr(text), "a rate above 0")
        return None
    return value


def _recoveries(text: str | None, reading: Reading) -> tuple[tuple[Recovery, ...], float | None]:
    """Return the recoveries to compare, those of runners unless one is named, and steps of learning."""
    from planner.techniques.recovery import RECOVERIES

    if text is None:
        return tuple(one for one in RECOVERIES.values() if one.runner), None
    name, _, rest = text.partition(":")
    found = reading.named("--recovery", name, RECOVERIES)
    if found is None:
        return (), None
    if rest.strip().lower().endswith("steps"):
        return (found,), _learning(found, rest.strip()[: -len("steps")], text, reading)
    pause = reading.seconds("--recovery", rest) if rest or text.endswith(":") else None
    return (found if pause is None else replace(found, pause=pause),), None


def _learning(found: Recovery, count: str, text: str, reading: Reading) -> float | None:
    """Return steps of learning that a recovery costs, or note that they are none, or that it costs none."""
    if found.learning[1] == 0:
        reading.fault("--recovery", repr(text), f"a time: {found.name} changes no result", found.name)
        return None
    try:
        steps = float(count)
    except ValueError:
        steps = -1.0
    if not 0 <= steps < 1e9:
        reading.fault("--recovery", repr(text), f"steps from 0, such as {found.name}:20steps")
        return None
    return steps


def emit_reckoned(found: Reckoned, shown: OutputOptions, several: tuple[bool, bool]) -> None:
    """Write plans ranked where machines fail, in the format asked for."""
    if shown.output is Format.json:
        emit_document(reliability.goodput_search_document(found))
    elif shown.output is Format.csv:
        emit_rows(reliability.goodput_rows(found), shown.output)
    else:
        emit_page(reliability.goodput_answer(found, several), shown.output)


def saving_of(best: Reliable) -> tables.Saving:
    """Return what the launch files say of checkpoints and failures."""
    return tables.Saving(
        steps=best.far_steps,
        behind=best.writes_behind,
        recovery=best.recovery.name,
        near_steps=best.near_steps if best.copies_near else None,
        per_node=best.answer.job.hardware.pool.gpus_per_node,
        gpus=best.gpus,
    )


def search_goodput(
    asked: Question,
    request: SearchRequest,
    conditions: Conditions,
    shown: OutputOptions,
    files: tuple[Path | None, Launch | None, bool],
) -> SearchResult | None:
    """Rank plans where machines fail, write the answer, and the best plan's files where asked for.

    Where nothing fits nothing is written, and the search that says so is returned.
    """
    with Progress(shown.quiet, shown.verbose) as progress:
        found = goodput.ranked_by_goodput(request, conditions, progress)
    if not found.plans and found.result is not None and not found.result.plans:
        return found.result
    check_reckoned(found)
    several = len(request.clusters) > 1, len(request.gpu_counts) > 1
    emit_reckoned(found, shown, several)
    best, (save, launch, force) = found.plans[0], files
    if launch is not None:
        launch = replace(launch, saving=saving_of(best))
    if launch is not None and best.recovery.name == "torchft":
        write_best(best.answer, asked, save, None, force)
        group_files.write_groups(best, asked, launch)
    else:
        write_best(best.answer, asked, save, launch, force)
    return None
