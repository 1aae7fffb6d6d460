"""Weights fetched module by module, ahead of their use, up to those that may be live (DeepSpeed's ZeRO-3).

All are gathered on a stream of their own, whose freed blocks serve no other.
"""

from __future__ import annotations

from planner.numeric import Num, maximum, minimum, where
from planner.rules import Mask
from planner.techniques.engines.family import GATHERED_BYTES, Step

FETCHES_AHEAD = 3.0
"""Fetches that DeepSpeed's host launches before it waits for the first: its two events, and the next. [-]"""


def head_gathers(step: Step) -> Num:
    """Bytes of a gathered head: twice where small weights stand before it.

    What is gathered with others comes as one flat buffer, which is there until each has its copy.

    References
    ----------
    .. [1] DeepSpeed edaa7221, ``deepspeed/runtime/zero/partition_parameters.py``,
       ``AllGatherCoalescedHandle``.
    """
    twice = bool(step.live_elements) and step.small_between
    return where(step.plan.zero_shards > 1.0, step.passes.gathered_head * (1.0 + twice), 0.0)


def live_gathers(step: Step) -> Num:
    """Bytes of sharded weights that are gathered from the end of forward to the last layers' backward.

    Every module, one without weights too, gathers some that come next, until as many are there as may be
    live, and the last of them whole: half a product more in the mean. A head alone may be more.

    References
    ----------
    .. [1] DeepSpeed 0.19.8, ``deepspeed/runtime/zero/partitioned_param_coordinator.py``,
       ``_fetch_sub_module_impl`` and ``__params_to_release``: ``stage3_max_live_parameters``;
       ``partition_parameters.py``, ``_no_gather_coalesced``: a rank alone copies nothing.
    """
    return _gathered(step, GATHERED_BYTES * _live(step))


def next_gathers(step: Step) -> Num:
    """Bytes gathered in the first layer's backward, after which the table alone comes."""
    elements = minimum(2 * step.passes.product, _live(step))
    return _gathered(step, GATHERED_BYTES * elements + step.passes.gathered_embedding)


def _live(step: Step) -> Num:
    """Weights that are there beside a product's own pass: itself at least. [element]"""
    product = step.passes.product
    return maximum(product, step.live_elements + product / 2)


def _gathered(step: Step, nbytes: Num) -> Num:
    """Bytes of gathered weights: all at most, and none where no rank shares them."""
    return where(step.plan.zero_shards > 1.0, minimum(nbytes, step.gathered), 0.0)


def streamed_bytes(step: Step) -> Num:
    """Bytes that gathers hold of a stream of their own; 0 without.

    They are live weights with an end, which no limit holds, and the blocks of the last few fetches: these
    wait for products that the host has launched and the device has yet to run.

    References
    ----------
    .. [1] DeepSpeed, as in `live_gathers`: ``__allgather_stream``, ``__max_ongoing_fetch_events``.
    .. [2] PyTorch, ``c10/cuda/CUDACachingAllocator.cpp``: a block serves the stream that it was made for,
       until a device that is full has all free ones given back.
    """
    if not step.live_elements:
        return 0.0
    head, live = head_gathers(step), live_gathers(step)
    ends = maximum(head, step.passes.gathered_embedding)
    ahead = GATHERED_BYTES * FETCHES_AHEAD * step.passes.product
    most = step.gathered + head - step.passes.gathered_head
    return where(live > 0.0, minimum(ends + live + ahead, most), 0.0)


def free_streamed_bytes(step: Step, at_step: Mask) -> Num:
    """Of these, the bytes that are free at the peak: all at the optimizer's step.

    Else beside the most that are live: at the head, or the embedding's backward.
    """
    if not step.live_elements:
        return 0.0
    held = streamed_bytes(step)
    live = live_gathers(step)
    return where(at_step, held, maximum(0.0, held - maximum(head_gathers(step), live)))
