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
    return step.passes.gathered_head * (1.0 + twice)


def live_gathers(step: Step) -> Num:
    """Bytes of sharded weights that are gathered in backward: two layers, or as many as may be live.

    References
    ----------
    .. [1] DeepSpeed edaa7221, ``deepspeed/runtime/zero/partitioned_param_coordinator.py``,
       ``_fetch_sub_module_impl`` and ``__params_to_release``: modules are fetched one by one, ahead of
       their use, and kept for the next one, up to ``stage3_max_live_parameters``.
    """
    if not step.live_elements:
        return 2 * step.passes.gathered_layer
    live = GATHERED_BYTES * (step.passes.product + step.live_elements)
    return where(step.plan.zero_shards > 1.0, minimum(live, step.gathered), 0.0)


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
    live = minimum(live_gathers(step) + step.passes.gathered_embedding, step.gathered)
    return where(at_step, held, maximum(0.0, held - maximum(head_gathers(step), live)))
