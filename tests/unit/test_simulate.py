"""The event simulation against hand arithmetic, and its records, picture and trace."""

from __future__ import annotations

import json

import pytest

from planner.errors import UnsupportedPlan
from planner.simulate.ascii import picture
from planner.simulate.bare import BarePipeline
from planner.simulate.record import ActivationBytes, memory_over_time, step_record
from planner.simulate.trace import COMPUTE, SEND, trace
from planner.techniques.schedules import SCHEDULES
from planner.techniques.schedules.engine import Pipeline, play
from planner.techniques.schedules.family import UNIT, Pass, PassTimes
from tests.cases import every

TWO_RANKS = ((Pass("F", 0, 0), Pass("BW", 0, 0)), (Pass("F", 1, 0), Pass("BW", 1, 0)))


def two_ranks(**changes: object) -> Pipeline:
    known = {
        "ranks": (0, 1),
        "forward": (2.0, 3.0),
        "input_gradient": (5.0, 7.0),
        "weight_gradient": (11.0, 13.0),
        "hops": (0.5, 99.0),
    }
    return Pipeline(**(known | changes))  # type: ignore[arg-type]


def test_unequal_chunks_by_hand() -> None:
    """0-2 F, hop to 2.5, 2.5-5.5 F, 5.5-25.5 backward, hop to 26, 26-42 backward."""
    timeline = play(TWO_RANKS, two_ranks())
    assert timeline.starts == ((0.0, 26.0), (2.5, 5.5))
    assert timeline.ends == ((2.0, 42.0), (5.5, 25.5))
    step = step_record(timeline)
    assert (step.makespan, step.bubble, step.longest_span) == (42.0, 42.0 - 23.0, 42.0)


def test_input_gradient_goes_up_before_the_weight_gradient_runs() -> None:
    split = (
        (Pass("F", 0, 0), Pass("B", 0, 0), Pass("W", 0, 0)),
        (Pass("F", 1, 0), Pass("B", 1, 0), Pass("W", 1, 0)),
    )
    timeline = play(split, two_ranks())
    assert timeline.starts == ((0.0, 13.0, 18.0), (2.5, 5.5, 12.5))
    assert timeline.makespan == 29.0


def test_a_message_may_keep_its_sender() -> None:
    orders = (
        (Pass("F", 0, 0), Pass("F", 0, 1), Pass("BW", 0, 0), Pass("BW", 0, 1)),
        (Pass("F", 1, 0), Pass("BW", 1, 0), Pass("F", 1, 1), Pass("BW", 1, 1)),
    )
    free = play(orders, two_ranks())
    occupied = play(orders, two_ranks(sends_occupy=True))
    assert free.starts[0][1] == 2.0
    assert occupied.starts[0][1] == 2.5
    assert occupied.starts[1][2] == free.starts[1][2] + 0.5


def test_sends_that_occupy_lengthen_the_step_by_hand() -> None:
    """GPipe, 2 ranks, 4 micro-batches of unit passes: the first rank sends 4 times, the second 4 back."""
    schedule, times = SCHEDULES["gpipe"], PassTimes(1.0, 1.0, 1.0, 0.25)
    free = BarePipeline(schedule, 2, 1, 4, times).played().makespan
    occupied = BarePipeline(schedule, 2, 1, 4, times, sends_occupy=True).played().makespan
    assert free == 5 * 3 + 2 * 0.25
    assert occupied == 4 * 1.25 + 1 + 4 * 2.25 + 2


def test_messages_inside_a_rank_are_free() -> None:
    whole = BarePipeline(SCHEDULES["zb-v"], 1, 2, 3, PassTimes(1.0, 1.0, 1.0, 5.0)).played()
    assert whole.makespan == 18.0


def test_jitter_is_seeded_and_keeps_the_mean() -> None:
    schedule = SCHEDULES["1f1b"]
    bare = BarePipeline(schedule, 4, 1, 64, UNIT)
    uneven = bare.played(0.1, 3)
    assert bare.played(0.1, 3) == uneven
    assert bare.played(0.1, 4) != uneven
    busy = [stage.busy for stage in step_record(uneven).stages]
    assert sum(busy) / (4 * 64 * 3) == pytest.approx(1.0, abs=0.02)
    assert uneven.makespan > bare.played().makespan


@every(
    ("orders", "words"),
    [
        (((Pass("F", 1, 0),), ()), "rank 0 runs chunk 1, which lives on rank 1"),
        (((Pass("BW", 0, 0), Pass("F", 0, 0)), ()), "rank 0 runs BW of chunk 0, micro-batch 0, too early"),
        (((Pass("F", 0, 0), Pass("F", 0, 0)), ()), "too early or twice"),
        (((Pass("F", 0, 0), Pass("W", 0, 0)), ()), "rank 0 runs W of chunk 0"),
        (
            ((Pass("F", 0, 0), Pass("BW", 0, 0)), (Pass("F", 1, 0),)),
            "rank 0 before BW of chunk 0, micro-batch 0",
        ),
    ],
)
def test_orders_that_cannot_run_are_told(orders: tuple[tuple[Pass, ...], ...], words: str) -> None:
    with pytest.raises(UnsupportedPlan, match=words):
        play(orders, two_ranks())


def test_schedules_that_cannot_run_give_every_reason() -> None:
    with pytest.raises(UnsupportedPlan) as caught:
        BarePipeline(SCHEDULES["bitpipe"], 3, 1, 4, UNIT).played()
    assert len(str(caught.value).splitlines()) == 3


def test_memory_over_time_by_hand() -> None:
    """Forward takes 10, input gradient leaves 4, weight gradient frees them."""
    timeline = BarePipeline(SCHEDULES["zb-h1"], 1, 1, 2, UNIT).played()
    curve = memory_over_time(timeline, 0, ActivationBytes((10.0,), (4.0,)))
    assert [item.kind for item in timeline.orders[0]] == ["F", "B", "W", "F", "B", "W"]
    assert curve == [(0.0, 10.0), (2.0, 4.0), (3.0, 0.0), (3.0, 10.0), (5.0, 4.0), (6.0, 0.0)]
    assert step_record(timeline, ActivationBytes((10.0,), (4.0,))).stages[0].peak_bytes == 10.0
    assert step_record(timeline).stages[0].peak_bytes is None


def test_picture_of_gpipe() -> None:
    """Nine slots of time in nine columns: F0 F1, a wait, and backwards of two slots each."""
    timeline = BarePipeline(SCHEDULES["gpipe"], 2, 1, 2, UNIT).played()
    assert picture(timeline, 2, 2, width=11).splitlines()[:2] == ["0 FF...D0D1", "1 .FFD0D1.."]


def test_picture_names_micro_batches_where_there_is_room() -> None:
    timeline = BarePipeline(SCHEDULES["gpipe"], 1, 1, 12, UNIT).played()
    line = picture(timeline, 1, 1, width=2 + 36 * 2).splitlines()[0]
    assert line.startswith("0 F0F1F2")
    assert "F9F-F-D0--D1--" in line
    assert line.endswith("D9--D10-D11-")


def test_picture_marks_later_chunks_and_split_gradients() -> None:
    timeline = BarePipeline(SCHEDULES["zb-v"], 1, 2, 1, UNIT).played()
    assert picture(timeline, 1, 2, width=8).splitlines()[0] == "0 FfbwBW"


@every(("pp", "m"), [(2, 4), (64, 200), (128, 1)])
def test_pictures_fit_eighty_columns(pp: int, m: int) -> None:
    timeline = BarePipeline(SCHEDULES["1f1b"], pp, 1, m, UNIT).played()
    lines = picture(timeline, pp, pp).splitlines()
    assert max(map(len, lines)) == 80
    assert len(lines) == pp + 2
    assert all(set(line[4:]) <= set("FD.-0123456789") for line in lines[:pp])


def test_trace_has_a_track_for_each_rank_and_stream() -> None:
    schedule, times = SCHEDULES["1f1b"], PassTimes(1.0, 1.0, 1.0, 0.5)
    timeline = BarePipeline(schedule, 3, 1, 4, times).played()
    document = trace(timeline, Pipeline.uniform(schedule.chunk_ranks(3, 1), times), unit=1e-6)
    events = json.loads(json.dumps(document))["traceEvents"]
    spans = [event for event in events if event["ph"] == "X"]
    passes = [event for event in spans if event["tid"] == COMPUTE]
    sends = [event for event in spans if event["tid"] == SEND]
    assert {event["pid"] for event in passes} == {0, 1, 2}
    assert len(passes) == 3 * 4 * 2
    assert len(sends) == 2 * 4 * 2
    assert sum(event["dur"] for event in passes) == pytest.approx(3 * 4 * 3 * 1e6)
    assert max(event["ts"] + event["dur"] for event in passes) == pytest.approx(timeline.makespan * 1e6)
    names = {(event["pid"], event["args"]["name"]) for event in events if event["name"] == "thread_name"}
    assert names == {(rank, name) for rank in range(3) for name in ("compute", "send")}


def test_trace_sends_end_where_the_next_pass_may_start() -> None:
    times = PassTimes(1.0, 1.0, 1.0, 0.5)
    timeline = BarePipeline(SCHEDULES["gpipe"], 2, 1, 1, times).played()
    pipeline = Pipeline.uniform((0, 1), times)
    events = [event for event in trace(timeline, pipeline, unit=1.0)["traceEvents"] if event["ph"] == "X"]
    told = [(event["name"], event["pid"], event["ts"], event["dur"]) for event in events]
    assert told == [
        ("F0", 0, 0.0, 1.0),
        ("BW0", 0, 5.0, 2.0),
        ("F0 to 1", 0, 1.0, 0.5),
        ("F0", 1, 1.5, 1.0),
        ("BW0", 1, 2.5, 2.0),
        ("BW0 to 0", 1, 4.5, 0.5),
    ]


def test_trace_counts_activations_in_flight() -> None:
    timeline = BarePipeline(SCHEDULES["gpipe"], 2, 1, 3, UNIT).played()
    events = trace(timeline, Pipeline.uniform((0, 1), UNIT))["traceEvents"]
    held = [event["args"]["chunks"] for event in events if event["ph"] == "C" and event["pid"] == 0]
    assert held == [1, 2, 3, 2, 1, 0]
