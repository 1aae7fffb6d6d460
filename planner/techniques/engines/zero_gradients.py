"""DeepSpeed's ZeRO of whole weights: gradients go through flat buckets, or wait for one reduction at the end.

Line by line in DeepSpeed 0.19.8, and as its engine was counted (``tests/oracle/zero_memory``).
"""

from __future__ import annotations

import numpy as np

from planner.numeric import Num, maximum, minimum, where
from planner.techniques.engines._fsdp import passing_moments
from planner.techniques.engines.family import GATHERED_BYTES, Moment, Moments, Step

NORM_BYTES = 8.0
"""Bytes of a gradient in the dtype of norms. [byte]"""


def bucket_moments(step: Step) -> Moments:
    """Return the moments of whole weights whose gradients ranks reduce.

    With ZeRO-1 or ZeRO-2 these compete: the loss; the last layers' backward beside buckets, which the first
    gradient makes; a bucket's reduction, which lays it end to end once more, in the middle of a layer's
    backward where it is full before the end; and the first layer's backward, beside what waits for the end.
    Buckets end with a micro-batch, but for ZeRO-1's, which like its whole gradients last from the first to
    the last. Without ZeRO all gradients are reduced at the end of backward, a bucket at a time. Where the
    host steps, a buffer of the largest gradient rests on the device, which takes each one's norm at once.

    References
    ----------
    .. [1] DeepSpeed 0.19.8, ``deepspeed/runtime/zero/stage_1_and_2.py``, ``process_gradients`` and
       ``setup_buckets``; ``allreduce_bucket``, whose ``flatten`` is the copy; ``reduce_ipg_grads``;
       ``independent_gradient_partition_epilogue``, ``_release_ipg_buffers``;
       ``temp_grad_buffer_for_gpu_offload`` and ``set_norm_for_param_grad_in_gpu``.
    .. [2] The same, ``deepspeed/runtime/engine.py``, ``buffered_allreduce_fallback``.
    """
    if not step.sharding.shards_optimizer:
        return (*passing_moments(step, step.summed_gradients), _reduced_at_once(step))
    passes, filled, staged = step.passes, bucket_share(step), staged_bytes(step)
    later = (step.plan.num_microbatches > 1) | step.after_others
    lasting = later & (not step.sharding.shards_gradients)
    earlier = where(later, part_gradients(step), 0.0)
    large = large_gradients(step)
    waits = earlier + large if step.sharding.shards_gradients else maximum(earlier, large)
    if is_wide(step) and not step.sharding.shards_gradients:
        earlier, waits = step.gradients + where(later, GATHERED_BYTES * step.trained, 0.0), 2 * step.gradients
    beside = maximum(passes.rebuilt + passes.loss * step.loss_beside, made_bytes(step))
    left, laid = maximum(0.0, 1.0 - filled), step.reduce_bytes * filled * step.trained
    apart = earlier * where(lasting, left, 1.0)
    inside = where(filled < 1.0, passes.rebuilt / 2, 0.0)
    reduced = left * passes.activations + inside + step.waiting + maximum(laid, norm_bytes(step)) + apart
    last = passes.activations + beside + step.waiting + earlier
    loss = passes.activations + passes.loss + where(lasting, step.waiting, 0.0) + earlier
    alone = maximum(step.reduce_bytes * passes.table, norm_bytes(step))
    alone = where(np.greater(passes.table, step.bucket_elements), alone, 0.0)
    first = passes.one_layer + maximum(passes.rebuilt, alone) + step.waiting + waits
    return (
        Moment("the first layer's backward", "backward", first + staged, passes.one_layer, waits),
        Moment("the last layers' backward", "backward", last + staged, passes.activations, earlier),
        Moment("a bucket's reduction", "backward", reduced + staged, left * passes.activations, apart),
        Moment("the loss", "loss", loss + staged, passes.activations, earlier),
    )


def is_wide(step: Step) -> bool:
    """Whether gradients are summed in fp32: with ZeRO-1 beside those that are made, until the next forward.

    References
    ----------
    .. [1] DeepSpeed 0.19.8, as above, ``_fill_param_grad_accum_attribute`` and
       ``_use_compact_grad_partition_buffer``.
    """
    return step.gradient_bytes > GATHERED_BYTES


def large_gradients(step: Step) -> Num:
    """Bytes of gradients that no bucket holds at the end of backward: the table's, with ZeRO-1 of all.

    All count where the largest product is larger than a bucket, though some of a layer's may not be.
    """
    bucket, head, table = step.bucket_elements, step.passes.head, step.passes.table
    last = where(np.greater(table, bucket), table, 0.0)
    if step.sharding.shards_gradients:
        return GATHERED_BYTES * last
    ends = last + where(np.greater(head, bucket), head, 0.0)
    return GATHERED_BYTES * where(np.greater(learnt_product(step), bucket), step.trained, ends)


def largest_gradient(step: Step) -> Num:
    """Weights of the largest parameter that learns. [element]"""
    return maximum(learnt_product(step), maximum(step.passes.head, step.passes.table))


def staged_bytes(step: Step) -> Num:
    """Bytes of the buffer through which gradients are summed where the host steps."""
    return GATHERED_BYTES * largest_gradient(step) * step.hosted


def norm_bytes(step: Step) -> Num:
    """Bytes of the largest gradient, or what a rank has of it, in fp64 where the host steps."""
    return NORM_BYTES * minimum(largest_gradient(step), step.trained / step.plan.zero_shards) * step.hosted


def made_bytes(step: Step) -> Num:
    """Bytes of a gradient as it is made, the head's or a product's, and of what reduces one that is alone."""
    largest = maximum(step.passes.head, learnt_product(step))
    alone = np.greater(largest, step.bucket_elements)
    return GATHERED_BYTES * largest + alone * maximum(step.reduce_bytes * largest, norm_bytes(step))


def learnt_product(step: Step) -> Num:
    """Weights of the largest product that learn: no more than a layer's. [element]"""
    return minimum(step.passes.product, step.passes.largest_layer)


def part_gradients(step: Step) -> Num:
    """Bytes of gradients that a rank keeps between micro-batches: all, or its part, by whole parameters.

    A part begins and ends within parameters, each of which it keeps whole: half a product at each end, or
    the table.

    References
    ----------
    .. [1] DeepSpeed 0.19.8, as above, ``copy_grads_in_partition``: as large as ``params_in_partition``.
    """
    return parted(step, step.gradients) if step.sharding.shards_gradients else step.gradients


def parted(step: Step, nbytes: Num) -> Num:
    """Bytes of the gradients of a rank's part of ``nbytes``, by whole parameters; in fp32 no more than it."""
    passes, each = step.passes, step.gradient_bytes
    if is_wide(step):
        return nbytes
    return minimum(each * step.trained, maximum(nbytes + each * learnt_product(step), each * passes.table))


def stepped_gradients(step: Step) -> Num:
    """Bytes of gradients at the optimizer's step: where ranks share states a part, by whole parameters.

    None where the host steps.
    """
    if step.hosted and step.sharding.shards_optimizer:
        return 0.0 * step.gradients
    if not step.sharding.shards_optimizer:
        return step.gradients
    return parted(step, step.gradients / (1.0 if step.sharding.shards_gradients else step.plan.zero_shards))


def largest_part(step: Step, elements: Num) -> Num:
    """Weights of the largest parameter that a rank of so many ``elements`` steps, or its part. [element]"""
    largest = largest_gradient(step)
    if step.sharding.shards_parameters:
        return largest / step.plan.zero_shards
    return minimum(elements, largest)


def bucket_share(step: Step) -> Num:
    """Share of a rank's gradients that are reduced at once: a bucket, or the largest product."""
    filled = maximum(step.bucket_elements, learnt_product(step))
    return minimum(1.0, filled / maximum(step.trained, 1.0))


def _reduced_at_once(step: Step) -> Moment:
    """Return the moment of all gradients, and the bucket of them that is reduced."""
    ranks = where(step.plan.dp > 1, 1.0, 0.0)
    size = step.gradients + ranks * step.reduce_bytes * bucket_share(step) * step.trained
    return Moment("the gradients' reduction", "backward", size, 0.0 * size, step.gradients)
