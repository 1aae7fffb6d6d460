"""What an allocator's retries cost, by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from planner.cost.case import Case, case_of
from planner.cost.estimate import Estimate, estimate
from planner.cost.memory.allocator import bucket_elements, retried_seconds, shown_bytes, step_buffer_bytes
from planner.cost.memory.peaks import PassBytes
from planner.cost.memory.reserve import needed_share, shown_share
from planner.cost.memory.stage_memory import StageMemory, live_logit_bytes
from planner.techniques.allocators import ALLOCATORS
from tests.cases import every
from tests.cli.command import planner
from tests.unit.cost_jobs import job, plan_of, runtime

NONE = PassBytes(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
TRAITS: dict[str, Any] = {"gradient_dtype": "bf16", "all_reduced_bytes": 4.0, "bucket_elements": 5e8}


def case(**traits: Any) -> Case:
    work = job()
    return case_of(plan_of(work), work, runtime(**(TRAITS | traits)))


def priced(**traits: Any) -> Estimate:
    work = job()
    return estimate(plan_of(work, micro_batch=2), work, runtime(**(TRAITS | traits)))


def test_a_bucket_is_flattened_cast_and_gathered() -> None:
    """Two bytes laid end to end, four cast to fp32, two of gathered weights: 8 for each of 5e8 gradients."""
    assert step_buffer_bytes(case(), NONE) == 8 * 5e8


def test_a_bucket_is_closed_by_the_product_that_fills_it() -> None:
    assert bucket_elements(case(), replace(NONE, product=7e7)) == 5.7e8


@every("end", ["gathered_head", "gathered_embedding"])
def test_an_end_comes_into_a_half_full_bucket(end: str) -> None:
    """A vocabulary of 128,000 times 6,656 is 8.52e8 weights, 1.7 GB in 16 bit; an eighth is 1.06e8."""
    whole, part = ({end: 2.0 * 128_000 * 6_656 / cut} for cut in (1, 8))
    assert bucket_elements(case(), replace(NONE, **whole)) == pytest.approx(2.5e8 + 8.52e8, rel=1e-3)
    assert bucket_elements(case(), replace(NONE, **part)) == 5e8


def test_half_of_the_time_where_the_buffers_just_fit() -> None:
    one = case(allocator="fixed", retry_seconds=4.0)
    capacity = one.pool.accelerator.memory_usable
    assert float(retried_seconds(one, plan_of(job()), NONE, capacity - 8 * 5e8)) == pytest.approx(2.0)
    assert float(retried_seconds(one, plan_of(job()), NONE, 0.5 * capacity)) == pytest.approx(0.0, abs=1e-6)
    assert float(retried_seconds(one, plan_of(job()), NONE, 1.5 * capacity)) == pytest.approx(4.0, rel=1e-3)


def test_blocks_of_many_logits_hold_a_bucket() -> None:
    """Four sequences of 2,048 tokens and 128,000 words are 1.05e9 logits, two 5.2e8: less than 5.7e8."""
    one = case(allocator="fixed", retry_seconds=4.0, logit_bytes=16.0)
    full = 1.5 * one.pool.accelerator.memory_usable
    loss = 16.0 * 2_048 * 128_000
    four, two = (replace(NONE, loss=loss * count, product=7e7) for count in (4, 2))
    assert float(retried_seconds(one, plan_of(job()), four, full)) == 0.0
    assert float(retried_seconds(one, plan_of(job()), two, full)) == pytest.approx(4.0, rel=1e-3)


def test_gathered_logits_leave_their_parts_and_a_flat_buffer_cached() -> None:
    """Two bytes of parts and two of the buffer, where tp divides the head and the loss wants all."""
    whole = case(vocab_parallel_loss=False, loss="gathered")
    divided = case(vocab_parallel_loss=True, loss="transformers")
    one, two = (plan_of(job(), tp=tp) for tp in (1, 2))
    assert [float(live_logit_bytes(whole, plan)) for plan in (one, two)] == [14.0, 18.0]
    assert [float(live_logit_bytes(divided, plan)) for plan in (one, two)] == [14.0, 18.0]


def test_a_roomy_device_never_retries_and_a_full_one_pays_once_in_a_step() -> None:
    plain, roomy = priced(), priced(allocator="fixed", retry_seconds=3.0)
    assert roomy.step == pytest.approx(plain.step, abs=1e-6)
    full = {"framework_bytes": plain.capacity}
    paid = priced(allocator="fixed", retry_seconds=3.0, **full)
    growing = priced(retry_seconds=3.0, **full)
    assert growing.step == priced(**full).step, "segments that grow have no such retry"
    assert paid.step - priced(**full).step == pytest.approx(3.0, rel=1e-2)
    assert paid.time.optimizer - plain.time.optimizer == pytest.approx(3.0, rel=1e-2)
    assert paid.bound == pytest.approx(plain.bound)


def test_a_value_read_back_costs_each_attention_forward() -> None:
    """Twelve layers, eight micro-batches of two sequences on two ranks, once more where layers run again."""
    work = job(gpus=2)
    plans = [plan_of(work, micro_batch=2, recompute=name) for name in ("none", "full")]
    for plan, times in zip(plans, (1, 2), strict=True):
        idle = (
            estimate(plan, work, runtime(read_back_seconds=1e-3)).step - estimate(plan, work, runtime()).step
        )
        assert idle == pytest.approx(times * 12 * float(plan.num_microbatches) * 1e-3)


@every(("needed", "shown"), [(0.5, 0.5 + 0.25 * 0.2), (0.94, 0.94 + 0.25 * 0.2), (0.96, 0.98), (1.2, 1.2)])
def test_a_device_shows_what_its_allocator_holds_as_far_as_there_is_room(needed: float, shown: float) -> None:
    one = case(held_share=0.3, reserve_share=0.05)
    capacity = one.pool.accelerator.memory_usable
    memory = StageMemory(0.0, 0.0, 0.0, activations=0.2 * capacity, workspace=0.0)
    assert float(shown_bytes(one, memory, needed * capacity)) == pytest.approx(shown * capacity)


@every(
    ("name", "shares"),
    [("growing", (0.05, 0.0)), ("fixed", (0.07, 0.3)), ("arena", (0.0, 0.0))],
)
def test_a_kind_of_allocator_has_a_reserve_of_its_own(name: str, shares: tuple[float, float]) -> None:
    """A fixed one needs and shows at least what was played; a compiler's plan needs nothing."""
    small = case(allocator=name, reserve_share=0.05)
    assert (needed_share(small), shown_share(small)) == shares
    large = case(allocator=name, reserve_share=0.2, held_share=0.4)
    assert (needed_share(large), shown_share(large)) == ((0.0, 0.0) if name == "arena" else (0.2, 0.4))


def test_an_allocator_is_named_by_a_former_word_and_told_by_explain(tmp_path: Path) -> None:
    """``--set segments=fixed`` is ``--set allocator=fixed``; a mistake lists the folder's names."""
    usual = ("estimate", "gpt2", "--hardware", "dgx-h100", "--gpus", "8", "--global-batch", "64")
    saved = [tmp_path / f"{trait}.yaml" for trait in ("allocator", "segments")]
    for path in saved:
        planner(*usual, "--set", f"{path.stem}=fixed", "--save", str(path))
    assert saved[0].read_text() == saved[1].read_text()
    saved[1].write_text(saved[0].read_text().replace("allocator: fixed", "segments: fixed"))
    told = [planner("explain", str(path), "-v").out for path in saved]
    assert told[0] == told[1]
    assert "PyTorch's allocator that do not grow" in " ".join(told[0].split())
    wrong = planner(
        *usual,
        "--set",
        "allocator=fixt",
    ).err
    assert all(name in wrong for name in ALLOCATORS)


def test_without_fixed_segments_a_device_shows_what_it_must_have() -> None:
    memory = StageMemory(0.0, 0.0, 0.0, activations=1e9, workspace=1e9)
    assert float(shown_bytes(case(), memory, 5e9)) == 5e9


def test_free_blocks_of_a_stream_of_gathers_are_shown_and_not_needed() -> None:
    """As far as the device has room: full, it is halfway between what is needed and all."""
    one = case()
    capacity = one.pool.accelerator.memory_usable
    memory = StageMemory(0.0, 0.0, 0.0, activations=1e9, workspace=0.0, streamed=5e9)
    assert float(shown_bytes(one, memory, 9e9)) == 14e9
    assert float(shown_bytes(one, memory, capacity - 2e9)) == capacity - 1e9
