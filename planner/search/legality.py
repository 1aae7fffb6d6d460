"""Which rows of a space are legal plans, by the rules of techniques and runtime."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner import numeric
from planner.cost.case import case_of
from planner.cost.legal import pass_rules
from planner.cost.memory.host_rules import host_checkpoint_rules, offload_rules
from planner.dataclasses import dataclass, replace
from planner.numeric import Column
from planner.plan import DEGREES, MESH, Plan
from planner.rules import Rule
from planner.runtimes.family import Job, Runtime
from planner.search.tables import Rows, distinct
from planner.techniques.offload import OFFLOADS
from planner.techniques.offload.family import read_offload
from planner.techniques.schedules import plain_schedule


@dataclass(frozen=True)
class PassNames:
    """Techniques that the passes of a step depend on."""

    sequence_parallel: bool
    cp_method: str
    recompute: str
    schedule: str


@dataclass(frozen=True)
class StateNames:
    """Techniques that only states and the end of a step depend on."""

    zero: int
    offload: str
    domain: int = 0


LEAST_HYBRID = 2
"""ZeRO stage from which groups inside a node or a rack are searched.

With optimizer states alone sharded, gradients are reduced and weights gathered once a step: smaller groups
then add an all-reduce between nodes and save nothing. `--zero-shards` asks for them.
"""


@dataclass(frozen=True)
class Choices:
    """Names that a search may take for each technique; the first of each is the plain one.

    ``domains`` are accelerators that a group of shards may fill, with replicas beside it; shards are spread
    over all ranks that may be, too.
    """

    zero: tuple[int, ...]
    recompute: tuple[str, ...]
    sequence_parallel: tuple[bool, ...]
    cp_method: tuple[str, ...]
    schedule: tuple[str, ...]
    offload: tuple[str, ...]
    domains: tuple[int, ...] = ()

    def passes(self) -> list[PassNames]:
        """Return every combination that the passes depend on."""
        return [
            PassNames(*names)
            for names in product(self.sequence_parallel, self.cp_method, self.recompute, self.schedule)
        ]

    def states(self) -> tuple[StateNames, ...]:
        """Return every combination that only the end of a step depends on."""
        return self._states

    @cached_property
    def _states(self) -> tuple[StateNames, ...]:
        hybrid = [zero for zero in self.zero if zero >= LEAST_HYBRID]
        spread = [StateNames(*names) for names in product(self.zero, self.offload)]
        whole = [name for name in self.offload[1:] if read_offload(OFFLOADS, name).fetches]
        grouped = product(hybrid, [self.offload[0], *whole], self.domains)
        return (*spread, *(StateNames(*names) for names in grouped))


def named(plan: Plan, passes: PassNames, states: StateNames, shards: int | None = None) -> Plan:
    """Return the plan with these techniques, sharded over ``shards`` ranks, or over all that may."""
    ranks = plan.dp * plan.cp
    whole = ranks if states.zero else np.ones_like(ranks)
    if shards is None and states.domain:
        filling = states.domain / plan.tp
        filled = (np.mod(states.domain, plan.tp) == 0) & (filling > 1) & (np.mod(ranks, filling) == 0)
        whole = np.where(filled, filling, ranks)
    sharded = whole if shards is None else np.full_like(ranks, float(shards))
    names = {"zero": states.zero, "offload": states.offload}
    return replace(plan, zero_shards=sharded, **vars(passes), **names)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Legal:
    """Rows that are legal plans under the techniques of their passes with some choice of states."""

    names: PassNames
    """Those techniques."""
    rows: Rows
    """Shape (rows,): their places in the space."""
    masks: NDArray[np.bool_]
    """Shape (states, rows): which of them each choice of states makes legal."""

    def part(self, rows: slice | Rows) -> Legal:
        """Return some of the rows."""
        return Legal(self.names, self.rows[rows], self.masks[:, rows])

    def with_any(self, states: Sequence[int]) -> Legal:
        """Return the rows that any of some choices of states makes legal, and no other choice."""
        masks = np.zeros_like(self.masks)
        masks[states] = self.masks[states]
        some = masks.any(axis=0)
        return Legal(self.names, self.rows[some], masks[:, some])


KnownLegal = dict[PassNames, tuple[Legal, Counter[str]]]
"""By the techniques of the passes: legal rows, and how many others broke which rule."""


def twin_passes(plan: Plan, names: PassNames, choices: Choices) -> NDArray[np.bool_]:
    """Whether a row is the same plan as one with plainer names for its passes: no ranks, or no stages."""
    plainer = names.sequence_parallel != min(choices.sequence_parallel)
    twin: NDArray[np.bool_] = (np.asarray(plan.tp) == 1) & plainer
    other: NDArray[np.bool_] = (np.asarray(plan.cp) == 1) & (names.cp_method != choices.cp_method[0])
    plain = plain_schedule(1)
    schedule = plain if plain in choices.schedule else choices.schedule[0]
    unstaged: NDArray[np.bool_] = (np.asarray(plan.pp) == 1) & (names.schedule != schedule)
    return np.logical_or(np.logical_or(twin, other), unstaged)


def twin_states(plan: Plan, names: StateNames) -> NDArray[np.bool_]:
    """Whether groups that should fill a domain are all ranks, so that the row is one without groups."""
    ranks = np.asarray(plan.dp * plan.cp)
    return np.equal(plan.zero_shards, ranks) if names.domain else np.zeros(ranks.shape, dtype=bool)


def once_alone(
    plan: Plan, masks: NDArray[np.bool_], states: Sequence[StateNames], plain: str
) -> NDArray[np.bool_]:
    """Return which choices of states are left where nobody shares any: of ZeRO stages the lowest legal one.

    A setting may ask for a stage whoever shares. Offloading is left alone, since runtimes offer it with some
    stages only.

    ``masks``: which choices of states make them legal; ``plain``: the offload without which stages are twins.
    """
    alone = np.asarray(plan.dp * plan.cp) == 1
    left, taken = masks.copy(), np.zeros(masks.shape[1], dtype=bool)
    if not alone.any():
        return left
    for place in sorted(range(len(states)), key=lambda place: states[place].zero):
        if states[place].offload == plain and not states[place].domain:
            left[place] &= ~(alone & taken)
            taken |= masks[place]
    return left


def obeying(
    rules: Sequence[Rule], among: NDArray[np.bool_], weight: int, removed: Counter[str]
) -> NDArray[np.bool_]:
    """Return the plans that keep every rule; count the others by the first they break, ``weight`` times."""
    left = among
    for rule in rules:
        if numeric.all(rule.holds):
            continue
        broken = left & ~np.asarray(rule.holds)
        if count := int(np.count_nonzero(broken)):
            removed[rule.name] += weight * count
            left = left & ~broken
            if not left.any():
                break
    return left


def plan_rows(plan: Plan, index: Rows) -> Plan:
    """Return the rows of a plan of columns at ``index``."""
    degrees: dict[str, Any] = {name: np.asarray(getattr(plan, name))[index] for name in DEGREES}
    return replace(plan, **degrees)


LAYOUT_AXES = (*MESH, "dp")
"""Degrees that do not change with the micro-batch."""

CELLS = 2**19
"""Cells of a rectangle, so that its masks stay in the cache."""


@dataclass(frozen=True)
class Rectangle:
    """Layouts of the cluster by micro-batches: a rule that sees one of the two is checked once for it."""

    plan: Plan
    """Degrees as columns (layouts, 1), micro-batches as a row (1, sizes), their numbers for every cell."""
    rows: Rows
    """Shape (layouts, sizes): place of each cell in the space; -1 where the batch does not divide so."""

    def taken(self, layouts: Rows) -> Rectangle:
        """Return some of the layouts."""
        degrees: dict[str, Any] = {name: getattr(self.plan, name)[layouts] for name in LAYOUT_AXES}
        passes = self.plan.num_microbatches[layouts]  # type: ignore[index]
        return Rectangle(replace(self.plan, num_microbatches=passes, **degrees), self.rows[layouts])


class Legality:
    """Tells the legal plans of a space.

    ``rows``: degrees as columns of one length; ``job`` and ``runtime``: what is planned and who runs it;
    ``shards``: ranks over which states are sharded; all that may where none is given; ``known``: what is
    legal whatever the settings of the runtime: kept there, and looked up by runtimes that differ in settings
    alone; ``beside``: settings whose legal plans are left out.
    """

    def __init__(
        self,
        rows: Plan,
        job: Job,
        runtime: Runtime,
        choices: Choices,
        shards: int | None = None,
        known: KnownLegal | None = None,
        beside: Runtime | None = None,
    ) -> None:
        self.job, self.runtime, self.choices, self.shards = job, runtime, choices, shards
        self.beside = beside
        self.space, self.known = replace(rows, zero_shards=np.ones(len(np.atleast_1d(rows.tp)))), known
        layouts, self.layout = distinct([np.atleast_1d(getattr(rows, axis)) for axis in LAYOUT_AXES])
        self.rectangles = list(_rectangles(rows, layouts, self.layout))

    def rows_of(self, names: PassNames, removed: Counter[str]) -> Legal:
        """Return the rows that some choice of states makes legal plans; count the rules that others break."""
        if self.known is None or names not in self.known:
            broken: Counter[str] = Counter()
            found = self._whatever_settings(names, broken), broken
            if self.known is not None:
                self.known[names] = found
        else:
            found = self.known[names]
        removed.update(found[1])
        return self._with_settings(found[0], removed)

    def _with_settings(self, legal: Legal, removed: Counter[str]) -> Legal:
        """Return the rows that obey the rules on what is switched on, too."""
        if not legal.rows.size:
            return legal
        rows, masks = replace(plan_rows(self.space, legal.rows), **vars(legal.names)), []
        for one, mask in zip(self.choices.states(), legal.masks, strict=True):
            if not mask.any():
                masks.append(mask)
                continue
            plan = replace(rows, zero=one.zero, offload=one.offload)
            if self.beside is not None:
                mask = mask & ~obeying(self._setting_rules(plan, self.beside), mask, 1, Counter())
            masks.append(obeying(self._setting_rules(plan, self.runtime), mask, 1, removed))
        legal_masks = np.array(masks)
        left = once_alone(rows, legal_masks, self.choices.states(), self.choices.offload[0])
        removed["same-as-another"] += int(np.count_nonzero(legal_masks)) - int(np.count_nonzero(left))
        some = left.any(axis=0)
        return (
            Legal(legal.names, legal.rows, left)
            if some.all()
            else Legal(legal.names, legal.rows[some], left[:, some])
        )

    def _setting_rules(self, plan: Plan, runtime: Runtime) -> list[Rule]:
        """Return the rules on what a runtime has switched on."""
        return [
            *host_checkpoint_rules(plan, case_of(plan, self.job, runtime)),
            *runtime.setting_rules(plan, self.job, runtime.as_run(plan, self.job)),
        ]

    def _whatever_settings(self, names: PassNames, removed: Counter[str]) -> Legal:
        """Return the rows that obey all rules but those on what is switched on beside them."""
        states = len(self.choices.states())
        found = [(np.zeros(0, dtype=np.intp), np.zeros((states, 0), dtype=bool))]
        found += [self._legal(part, names, removed) for part in self.rectangles]
        rows = np.concatenate([rows for rows, _ in found])
        masks = np.concatenate([masks for _, masks in found], axis=1)
        order = np.argsort(rows, kind="stable")
        return Legal(names, rows[order], masks[:, order])

    def _legal(
        self, part: Rectangle, names: PassNames, removed: Counter[str]
    ) -> tuple[Rows, NDArray[np.bool_]]:
        """Return the legal rows of a rectangle, and which choices of states make them so."""
        states = self.choices.states()
        part, left = _some_left(part, self._legal_passes(part, names, removed))
        if left.size:
            plan = named(part.plan, names, states[0], self.shards)
            rules = self.runtime.pass_rules(plan, self.job, self.runtime)
            part, left = _some_left(part, obeying(rules, left, len(states), removed))
        if not left.size:
            return np.zeros(0, dtype=np.intp), np.zeros((len(states), 0), dtype=bool)
        masks = np.array([self._legal_states(part, left, names, one, removed) for one in states])
        some = masks.any(axis=0)
        return part.rows[some], masks[:, some]

    def _legal_passes(self, part: Rectangle, names: PassNames, removed: Counter[str]) -> NDArray[np.bool_]:
        """Return the plans that keep the rules of the techniques, whatever their states."""
        states, there = self.choices.states(), part.rows >= 0
        twins = there & twin_passes(part.plan, names, self.choices)
        removed["same-as-another"] += len(states) * int(np.count_nonzero(twins))
        if not (left := there & ~twins).any():
            return left
        plan = named(part.plan, names, states[0], self.shards)
        return obeying(pass_rules(plan, case_of(plan, self.job, self.runtime)), left, len(states), removed)

    def _legal_states(
        self,
        part: Rectangle,
        among: NDArray[np.bool_],
        names: PassNames,
        states: StateNames,
        removed: Counter[str],
    ) -> NDArray[np.bool_]:
        """Return which of these plans keep the rules of offload and runtime."""
        plan = named(part.plan, names, states, self.shards)
        twins = among & twin_states(plan, states)
        removed["same-as-another"] += int(np.count_nonzero(twins))
        if not (left := among & ~twins).any():
            return left
        case = case_of(plan, self.job, self.runtime)
        rules = [*offload_rules(plan, case), *self.runtime.own_rules(plan, self.job, self.runtime)]
        return obeying(rules, left, 1, removed)


def _some_left(part: Rectangle, left: NDArray[np.bool_]) -> tuple[Rectangle, NDArray[np.bool_]]:
    """Return the layouts of a rectangle of which some rows are left, and which."""
    layouts = np.flatnonzero(left.any(axis=1))
    return part.taken(layouts), left[layouts]


def _rectangles(rows: Plan, layouts: Sequence[Column], layout: Rows) -> Iterator[Rectangle]:
    """Yield the rows as rectangles, layouts that allow equally many micro-batches next to one another."""
    (sizes,), size = distinct([np.atleast_1d(rows.micro_batch)])
    table = np.full((len(layouts[0]), len(sizes)), -1, dtype=np.intp)
    table[layout, size] = np.arange(len(layout))
    order = np.argsort(layouts[LAYOUT_AXES.index("dp")], kind="stable")
    step = max(1, CELLS // max(1, len(sizes)))
    for start in range(0, len(order), step):
        some = order[start : start + step]
        used = np.flatnonzero((table[some] >= 0).any(axis=0))
        cells = table[some][:, used]
        passes = np.where(cells >= 0, np.atleast_1d(rows.num_microbatches)[cells], 1.0)
        degrees: dict[str, Any] = {
            name: column[some, np.newaxis] for name, column in zip(LAYOUT_AXES, layouts, strict=True)
        }
        batch: dict[str, Any] = {"micro_batch": sizes[np.newaxis, used], "num_microbatches": passes}
        yield Rectangle(replace(rows, **degrees, **batch), cells)
