"""Facts, rules and orders of the pipeline schedules, and the figures that their papers print."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from planner.formulas.pipeline import Pipe
from planner.registry import find
from planner.simulate.bare import BarePipeline
from planner.simulate.record import StepRecord, step_record
from planner.techniques.schedules import SCHEDULES, Schedule
from planner.techniques.schedules.family import UNIT, PassTimes

CONTRACT = """
    gpipe 1f1b interleaved-1f1b zb-h1 zb-h2 zb-1p zb-2p zb-v v-min v-half v-zb breadth-first dualpipe
    dualpipe-v pipedream zeropp bitpipe 2bp
"""

TORCH = {
    "GPipe": "gpipe",
    "1F1B": "1f1b",
    "Interleaved1F1B": "interleaved-1f1b",
    "LoopedBFS": "breadth-first",
    "InterleavedZeroBubble": "interleaved-zb",
    "ZBVZeroBubble": "zb-v",
    "DualPipeV": "dualpipe-v",
}

ALL = [pytest.param(entry, id=name) for name, entry in SCHEDULES.items()]


def small_cases(schedule: Schedule) -> list[tuple[int, int, int]]:
    numbers = [(pp, vpp, m) for pp in range(1, 7) for vpp in (1, 2, 3) for m in (1, 2, 3, 4, 6, 8, 12, 16)]
    return [case for case in numbers if not schedule.supports(*case)]


def played(name: str, pp: int, vpp: int, microbatches: int, times: PassTimes = UNIT) -> StepRecord:
    return step_record(BarePipeline(SCHEDULES[name], pp, vpp, microbatches, times).played())


def test_every_schedule_of_the_contract_is_there() -> None:
    assert set(CONTRACT.split()) <= set(SCHEDULES)
    assert find(SCHEDULES, "interleaved", "--schedule").name == "interleaved-1f1b"


@pytest.mark.parametrize(("spelling", "name"), TORCH.items())
def test_torch_spellings_are_aliases(spelling: str, name: str) -> None:
    assert find(SCHEDULES, spelling, "--schedule").name == name
    assert find(SCHEDULES, f"Schedule{spelling}", "--schedule").name == name


def test_no_spelling_means_two_schedules() -> None:
    spellings = [word.lower() for entry in SCHEDULES.values() for word in {entry.name, *entry.aliases}]
    assert len(spellings) == len(set(spellings))


@pytest.mark.parametrize("schedule", ALL)
def test_every_pass_runs_once_on_the_rank_of_its_chunk(schedule: Schedule) -> None:
    cases = small_cases(schedule)
    assert cases
    for pp, vpp, m in cases:
        ranks = schedule.chunk_ranks(pp, vpp)
        orders = schedule.order(pp, vpp, m)
        counts = Counter(item for passes in orders for item in passes)
        assert set(counts.values()) == {1}
        assert all(ranks[item.chunk] == rank for rank, passes in enumerate(orders) for item in passes)
        visits = {(chunk, microbatch) for kind, chunk, microbatch in counts if kind == "F"}
        route = pp * vpp
        assert Counter(microbatch for _, microbatch in visits) == dict.fromkeys(range(m), route)
        for visit in visits:
            gradients = sorted(kind for kind in ("B", "BW", "W") if (kind, *visit) in counts)
            assert gradients in (["BW"], ["B", "W"])
            assert schedule.splits_backward or gradients == ["BW"]


@pytest.mark.parametrize("schedule", ALL)
def test_the_mask_says_what_the_reasons_say(schedule: Schedule) -> None:
    pp, vpp, m = (axis.ravel() for axis in np.meshgrid([1.0, 2, 3, 4, 5], [1.0, 2, 3], [1.0, 3, 4, 8, 10]))
    mask = schedule.legal(pp, vpp, m)
    for place, numbers in enumerate(zip(pp, vpp, m, strict=True)):
        assert bool(np.asarray(mask)[place]) == (not schedule.supports(*map(int, numbers)))


def test_reasons_name_the_schedule_the_rule_and_the_numbers() -> None:
    (reason,) = SCHEDULES["dualpipe"].supports(4, 1, 6)
    assert reason.startswith("dualpipe needs an even number of micro-batches, at least 2 pp")
    assert "pp 4" in reason
    assert "6 micro-batches" in reason
    assert len(SCHEDULES["bitpipe"].supports(3, 1, 4)) == 3


@pytest.mark.parametrize("schedule", ALL)
def test_one_plan_and_many_have_the_same_figures(schedule: Schedule) -> None:
    cases = np.array(small_cases(schedule), dtype=float).T
    seconds = (2.03, 2.51, 1.47, 0.013)
    for form in (schedule.bubble_seconds, schedule.span_bubble_seconds):
        column = form(Pipe(*cases, *seconds))
        alone = [form(Pipe(*map(float, case), *seconds)) for case in cases.T]
        assert np.array_equal(np.asarray(column), np.asarray(alone))
    for count in (schedule.in_flight_chunks, schedule.awaiting_weight_chunks, schedule.weight_versions):
        alone = [count(*map(float, case), 0.0) for case in cases.T]
        assert np.array_equal(np.asarray(count(*cases, 0.0)), np.asarray(alone))
    alone = [schedule.messages(*map(float, case)) for case in cases.T]
    assert np.array_equal(np.asarray(schedule.messages(*cases)), np.asarray(alone))


@pytest.mark.parametrize("schedule", ALL)
def test_one_rank_has_no_bubble_and_no_messages(schedule: Schedule) -> None:
    vpp = next((vpp for vpp in (1, 2) if not schedule.supports(1, vpp, 4)), None)
    if vpp is None:
        assert schedule.supports(1, 1, 4)[0].endswith("found pp 1, vpp 1, 4 micro-batches")
        return
    assert schedule.bubble_seconds(Pipe(1, vpp, 4, 1.0, 1.1, 0.9, 0.1)) == pytest.approx(0, abs=1e-12)
    assert schedule.messages(1, vpp, 4) == 0


@pytest.mark.parametrize("schedule", ALL)
def test_messages_are_those_of_the_placement(schedule: Schedule) -> None:
    for pp, vpp, m in small_cases(schedule):
        ranks = schedule.chunk_ranks(pp, vpp)[: pp * vpp]
        crossings = sum(a != b for a, b in pairwise(ranks))
        assert schedule.messages(pp, vpp, m) == 2 * crossings


@pytest.mark.parametrize("schedule", ALL)
def test_in_flight_counts_are_those_of_the_order(schedule: Schedule) -> None:
    exact_only_when_full = {"v-min", "v-half", "v-zb"}
    for pp, vpp, m in small_cases(schedule):
        step = step_record(BarePipeline(schedule, pp, vpp, m, UNIT).played())
        claimed = [float(schedule.in_flight_chunks(pp, vpp, m, rank)) for rank in range(pp)]
        found = [stage.peak_in_flight for stage in step.stages]
        if schedule.name in exact_only_when_full | {"zeropp", "zb-2p", "po-h", "po-f"}:
            assert all(a >= b for a, b in zip(claimed, found, strict=True))
            if schedule.name in exact_only_when_full and m >= 2 * pp >= 6:
                assert max(claimed) == max(found)
        else:
            assert claimed == found, (pp, vpp, m)


@pytest.mark.parametrize("name", ["zb-h1", "zb-h2", "2bp", "interleaved-zb"])
def test_what_waits_for_weight_gradients_is_at_most_the_rest(name: str) -> None:
    schedule, pp, m = SCHEDULES[name], 4, 16
    for rank in range(pp):
        held = schedule.in_flight_chunks(pp, 1, m, rank)
        waiting = schedule.awaiting_weight_chunks(pp, 1, m, rank)
        live = {"zb-h2": 2 * (pp - rank) - 1}.get(name, pp - rank)
        assert held - waiting == live


@pytest.mark.parametrize("pp", [4, 5, 6, 8, 9, 12, 16])
def test_controllable_memory_peaks(pp: int) -> None:
    """Peaks in micro-batches of a slice: (p + 4) // 3 and (p + 2) // 2, arXiv:2405.15362."""
    m = 3 * pp
    peaks = {
        name: max(stage.peak_in_flight for stage in played(name, pp, 2, m).stages) / 2
        for name in ("v-min", "v-half", "v-zb", "zb-v")
    }
    assert peaks == {"v-min": (pp + 4) // 3, "v-half": (pp + 2) // 2, "v-zb": pp, "zb-v": pp}


@pytest.mark.parametrize("pp", [8, 16])
def test_controllable_memory_bubbles(pp: int) -> None:
    """Bubbles over that of 1F1B: about 2/3 and 1/2 at equal pass times, arXiv:2405.15362."""
    flushed = (pp - 1) * 6
    assert played("v-min", pp, 2, 3 * pp).bubble / flushed == pytest.approx(2 / 3, abs=0.03)
    assert played("v-half", pp, 2, 3 * pp).bubble / flushed == pytest.approx(1 / 2, abs=0.04)
    assert played("v-zb", pp, 2, 3 * pp).bubble == pp - 1


@pytest.mark.parametrize(("pp", "share"), [(4, 0.143), (8, 0.2), (16, 0.226)])
def test_bitpipe_share(pp: int, share: float) -> None:
    """Idle over makespan at m = p: (p - 2) / (3p + p - 2), arXiv:2410.19367."""
    step = played("bitpipe", pp, 2, pp)
    assert step.bubble / step.makespan == pytest.approx(share, abs=5e-4)


def test_bitpipe_activations_at_four_ranks() -> None:
    """Half-slices in flight on the four ranks of the released schedule: 7, 8, 8, 7."""
    assert [stage.peak_in_flight for stage in played("bitpipe", 4, 2, 8).stages] == [7, 8, 8, 7]


@pytest.mark.parametrize("pp", [4, 8])
def test_two_way_schedules_hold_the_weights_twice(pp: int) -> None:
    """DualPipe, BitPipe: twice the weights; DualPipe: p + 1 activations (arXiv:2412.19437, Table 2)."""
    assert SCHEDULES["dualpipe"].weight_copies == SCHEDULES["bitpipe"].weight_copies == 2
    assert {stage.peak_in_flight for stage in played("dualpipe", pp, 1, 4 * pp).stages} == {pp + 1}
    assert SCHEDULES["dualpipe-v"].weight_copies == 1


@pytest.mark.parametrize(("m", "gain"), [(4, 1.40), (8, 1.22)])
def test_two_stage_backpropagation_gains(m: int, gain: float) -> None:
    """2BP (arXiv:2405.18047) over 1F1B, 4 ranks, F = p1 = p2: ideally 3(2N-1)/(4N-1) and 3(3N-1)/(7N-1)."""
    flushed = played("1f1b", 4, 1, m).makespan
    assert flushed / played("2bp", 4, 1, m).makespan == pytest.approx(gain, abs=0.005)


def test_pipedream_keeps_a_version_for_each_micro_batch_in_flight() -> None:
    """Rank i of a straight pipe keeps p - i versions (arXiv:1806.03377)."""
    schedule = SCHEDULES["pipedream"]
    assert [schedule.weight_versions(4, 1, 64, rank) for rank in range(4)] == [4, 3, 2, 1]
    assert not schedule.flushes


def test_pipedream_waits_only_for_messages() -> None:
    """What a micro-batch more takes in the steady state, from two long runs."""
    schedule, times = SCHEDULES["pipedream"], PassTimes(1.0, 1.2, 0.8, 0.25)
    short = BarePipeline(schedule, 4, 1, 40, times).played().makespan
    long = BarePipeline(schedule, 4, 1, 80, times).played().makespan
    wait = schedule.bubble_seconds(Pipe(4, 1, 40, 1.0, 1.2, 0.8, 0.25))
    assert long - short == pytest.approx(40 * 3.0 + wait)
    assert schedule.bubble_seconds(Pipe(4, 1, 40, 1.0, 1.2, 0.8)) == 0


@pytest.mark.parametrize(("vpp", "m"), [(2, 8), (4, 8), (2, 32)])
def test_interleaving_divides_the_bubble(vpp: int, m: int) -> None:
    """Idle over ideal time is (p - 1) / (v m), arXiv:2104.04473, sec. 2.2.2."""
    step = played("interleaved-1f1b", 8, vpp, m)
    assert step.bubble / (m * vpp * 3) == pytest.approx(7 / (vpp * m))
