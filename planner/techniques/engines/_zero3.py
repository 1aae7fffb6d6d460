"""DeepSpeed's ZeRO-3: weights gathered module by module, one buffer of gradients to be reduced.

Line by line in DeepSpeed 0.19.8, and as its engine was counted (``tests/oracle/zero_memory``).
"""

from __future__ import annotations

import numpy as np

from planner.numeric import Num, maximum, where
from planner.techniques.engines.family import GATHERED_BYTES, Moment, Moments, Step
from planner.techniques.engines.fetches import head_gathers, live_gathers, next_gathers
from planner.techniques.engines.zero_gradients import bucket_share, learnt_product


def module_moments(step: Step) -> Moments:
    """Return the moments of weights that are sharded, whose gradients have a buffer that is never freed.

    A rank's part of the gradients and the bucket in which they are laid rest on it from the start. Four
    moments compete: the loss, and the backward of the last layers, beside the modules that come back soon; a
    bucket's reduction, which lays it end to end once more; and the first layer's backward.

    References
    ----------
    .. [1] DeepSpeed 0.19.8, ``deepspeed/runtime/zero/stage3.py``, ``_setup_for_real_optimizer``:
       ``bucket.buffer`` and ``grad_partitions_flat_buffer``; ``__add_grad_to_ipg_bucket``; and
       ``deepspeed/runtime/comm/coalesced_collectives.py``, ``reduce_scatter_coalesced``.
    """
    passes, bucket = step.passes, step.reduce_bytes * step.bucket_elements
    live, following = live_gathers(step), next_gathers(step)
    made = made_apart(step)
    head = maximum(passes.loss, GATHERED_BYTES * passes.head)
    loss = passes.activations + maximum(live, head_gathers(step)) + head
    last = passes.activations + passes.rebuilt + passes.loss * step.loss_beside + live + made
    first = passes.one_layer + passes.rebuilt + following + made
    filled = bucket_share(step)
    left = passes.activations * maximum(0.0, 1.0 - filled)
    copied = where(step.plan.zero_shards > 1, step.reduce_bytes * filled * step.trained, 0.0)
    reduced = left + copied + where(filled < 1.0, following + passes.rebuilt / 2, 0.0)
    return (
        Moment("the first layer's backward", "backward", first + bucket, passes.one_layer),
        Moment("a bucket's reduction", "backward", reduced + bucket, left),
        Moment("the last layers' backward", "backward", last + bucket, passes.activations),
        Moment("the loss", "loss", loss + bucket, passes.activations),
    )


def made_apart(step: Step) -> Num:
    """Bytes of gradients outside the bucket: one that is laid into it, or two that are too large for it.

    A large one waits for the next, which is a bias's where products have them.
    """
    product = learnt_product(step)
    waits = np.greater(product, step.bucket_elements) & (not step.biased)
    return GATHERED_BYTES * product * where(waits, 2.0, 1.0)
