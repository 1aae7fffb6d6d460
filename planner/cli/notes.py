"""What a user should know of a job that its prices do not say, one line each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from planner.cli.versions import version_notes
from planner.deferred import deferred

with deferred():
    from planner.cli import tables
    from planner.cost import money

if TYPE_CHECKING:
    from planner.inputs.hardware import HardwareProfile
    from planner.inputs.model import ModelSpec
    from planner.inputs.workload import Workload
    from planner.runtimes.family import Job, Runtime


STARTED: Final = ("NVIDIA", "AMD")
"""Vendors on whose accelerators the launch files start."""


def job_notes(
    model: ModelSpec,
    workload: Workload,
    profiles: Iterable[HardwareProfile],
    counts: Sequence[int],
    objective: str = "time",
) -> list[str]:
    """Return what to know of a job: positions, pools, devices, nodes, prices, software that has changed."""
    clusters = tuple(profiles)
    lines = [
        *position_notes(model, workload.seq_len),
        *token_notes(workload),
        *learning_notes(workload),
        *pool_notes(clusters),
        *vendor_notes(clusters),
    ]
    lines += [*node_notes(clusters, counts), *price_notes(clusters, objective)]
    lines += phase_notes(clusters, objective)
    return [*lines, *version_notes(clusters)]


def method_notes(method: str | None, asked: Iterable[Runtime]) -> Iterator[str]:
    """Yield that no runtime that is asked can share a sequence this way, so that a search shares none."""
    chosen, name = tuple(asked), tables.offered_name(method or "")
    if method is None or any(name in one.cp_methods for one in chosen):
        return
    others = [one.title for one in tables.runtimes().values() if name in one.cp_methods]
    there = f"{' and '.join(others)} can" if others else "no runtime here can, `estimate` prices it"
    titles = ", ".join(one.title for one in chosen)
    yield f"{titles} cannot share a sequence by {method}, so that these plans share none; {there}"


def file_notes(model: ModelSpec, asked: Iterable[tuple[Job, Runtime]]) -> Iterator[str]:
    """Yield which runtimes train a language model by no files from here, and whose files start it."""
    priced = [
        one.name for job, one in asked if one.unwritten(one.trained(model)) and not one.cannot_train(job)
    ]
    names = list(dict.fromkeys(priced))
    if names and model.diffusion is None and not any(block.extras for block in model.blocks.values()):
        alone = f"{model.name} on {' or '.join(names)} is a price alone"
        if model.encoder is not None and not model.crosses:
            yield f"{alone}: no files of theirs start it with its encoder"
            return
        others = tables.libraries()
        titles = ", ".join(one.title for one in others.values())
        yield (
            f"{alone}: files for {titles} start it, from its checkpoint (--target trl), and no others from "
            "here"
        )


def learning_notes(workload: Workload) -> Iterator[str]:
    """Yield what a method costs in learning, where it is no way to compute the same."""
    from planner.techniques.methods import METHODS

    if learns := METHODS[workload.method].learns:
        yield f"{workload.method}: {learns}; steps are no measure beside other methods"


def vendor_notes(profiles: Iterable[HardwareProfile]) -> Iterator[str]:
    """Yield that no runtime here is started on the accelerators of a vendor."""
    for profile in profiles:
        if profile.pool.accelerator.vendor not in STARTED:
            yield (
                f"{profile.name} is priced as if its {profile.pool.accelerator.vendor} software behaved as "
                f"the runtime does; launch files are for {' and '.join(STARTED)} accelerators"
            )


def price_notes(profiles: Iterable[HardwareProfile], objective: str) -> Iterator[str]:
    """Yield that a cluster cannot be ranked by an objective, since a number of it is not known."""
    clusters = tuple(profiles)
    quotes = {profile.name: money.quote_of(profile.pool) for profile in clusters}
    lent = {name: quote for name, quote in quotes.items() if quote is not None and quote.lent}
    if lent and objective == "cost" and len(clusters) > 1:
        each = [
            f"{name} {quote.usd_per_hour:g} USD/h ({quote.seller or 'another seller'})"
            for name, quote in lent.items()
        ]
        yield (
            f"priced at what others ask for the accelerator: {', '.join(each)}; give your own with "
            f"--price USD_PER_HOUR={next(iter(lent))}"
        )
    for profile in clusters:
        pool = profile.pool
        told = {"cost": ("price", pool.price_per_hour), "energy": ("rated power", pool.accelerator.power)}
        what, known = told.get(objective, ("", 1.0))
        if known is None:
            yield (
                f"no {what} of {profile.name} is known, so it comes last by {objective}, its own plans by "
                f"time; a profile of your own can say it (docs/how-to/add-a-machine.md)"
            )


def phase_notes(profiles: Iterable[HardwareProfile], objective: str) -> Iterator[str]:
    """Yield that energy says no more than time, since nobody measured watts by phase."""
    for profile in profiles:
        accelerator = profile.pool.accelerator
        known = (accelerator.power_communicating, accelerator.power_waiting)
        if objective == "energy" and accelerator.power is not None and None in known:
            yield (
                f"what {accelerator.name} draws while it communicates or waits is not known, so energy takes "
                "its rated power throughout and ranks plans on it by time; a profile of your own can say it "
                "(power_communicating, power_waiting)"
            )


def position_notes(model: ModelSpec, seq_len: int) -> Iterator[str]:
    """Yield that sequences go beyond the positions for which rotary embeddings were made."""
    positions = model.max_positions
    if positions and not model.learned_positions and seq_len > positions:
        yield (
            f"sequences of {seq_len:,} tokens are longer than the {positions:,} positions of {model.name}: "
            "its rotary embedding needs another base or scaling, which no price depends on"
        )


def token_notes(workload: Workload) -> Iterator[str]:
    """Yield that a job ends before its first step does."""
    if workload.tokens is not None and workload.tokens < workload.tokens_per_step:
        yield (
            f"--tokens {workload.tokens:,.0f} is less than the {workload.tokens_per_step:,} tokens of one "
            "step: time and cost to train are a part of a step"
        )


def pool_notes(profiles: Iterable[HardwareProfile]) -> Iterator[str]:
    """Yield that of a mixed cluster one pool alone is planned for."""
    for profile in profiles:
        if len(profile.pools) > 1:
            yield (
                f"{profile.name} has {len(profile.pools)} pools, and a plan runs on one: the first, of "
                f"{profile.pool.accelerator.name}; for another one put it first, or in a profile of its own; "
                "for stages on all, write them as sites (docs/how-to/sites.md)"
            )


def node_notes(profiles: Iterable[HardwareProfile], counts: Iterable[int]) -> Iterator[str]:
    """Yield that a count leaves a node partly used, for which no launch files are written."""
    sizes = {profile.pool.gpus_per_node for profile in profiles}
    for count in counts:
        for size in sorted(size for size in sizes if count > size and count % size):
            low = count // size * size
            yield (
                f"{count:,} accelerators do not fill nodes of {size}: launch files are written for whole "
                f"nodes, such as --gpus {low} or {low + size}"
            )
