"""Chunks that run several passes in a row, whatever the engine."""

from __future__ import annotations

from planner.numeric import where
from planner.techniques.engines.family import Moment, Moments, Step


def round_moments(step: Step) -> Moments:
    """Return the moments where a chunk's gradients are whole until the last of its passes.

    Two chunks are gathered at once, the next one ahead of its passes, where weights are sharded; two have
    their gradients whole, the last one while it is reduced. Four moments compete: the loss; the first chunk's
    backward, with all activations; the next one's, when one chunk's are gone; and that of the chunk that
    ends, with the embedding.

    References
    ----------
    .. [1] J. Lamy-Poirier, "Breadth-First Pipeline Parallelism," arXiv:2211.05953 (when a chunk's weights are
       gathered and its gradients reduced).
    """
    passes, sharded, reduced = step.passes, step.sharding.shards_parameters, step.reduce_bytes
    chunk, head = sharded * passes.gathered_chunk, sharded * passes.gathered_head
    unreduced, ends = reduced * passes.chunk, reduced * passes.head
    table = sharded * passes.gathered_embedding + reduced * passes.table
    beside = passes.loss * step.loss_beside
    inside, part = passes.rebuilt + beside + 2 * chunk, passes.activations / step.plan.vpp
    loss = passes.activations + passes.loss + head + chunk + ends
    first = passes.activations + inside + head + ends + unreduced
    following = passes.activations - part + inside + ends + 2 * unreduced
    last = part + passes.rebuilt + chunk + table + 2 * unreduced
    return (
        Moment("the last chunk's backward", "backward", last, part),
        Moment("the first chunk's backward", "backward", first, passes.activations),
        Moment(
            "the next chunk's backward",
            "backward",
            where(step.plan.vpp > 2, following, 0.0),
            passes.activations,
        ),
        Moment("the loss", "loss", loss, passes.activations),
    )
