"""ZO2: blocks stream through the device for forward passes alone; both tables stay there.

One block runs, one comes and one goes, as its authors' memory says (`tests/unit/test_zeroth_order.py`).
"""

from planner.numeric import maximum
from planner.techniques.engines._fsdp import whole_moments
from planner.techniques.engines.family import Engine, Moment, Moments, Step

BLOCKS = 3.0
"""Blocks on the device at once. [-]"""


def streaming_moments(step: Step) -> Moments:
    """Return the moments of forward passes: a block's, and the loss; gradients, if there are any, stay."""
    passes = step.passes
    tables = passes.gathered_embedding + passes.gathered_head
    resident = BLOCKS * passes.gathered_layer + tables + step.gradients
    inside = maximum(passes.rebuilt, passes.activations)
    return (
        Moment("a block's forward", "backward", resident + inside, passes.activations),
        Moment("the loss", "loss", resident + passes.loss, passes.activations),
    )


ENTRY = Engine(
    name="zo2",
    cite="arXiv:2503.12668",
    whole=whole_moments,
    sharded=streaming_moments,
    lasting=False,
    runs=False,
)
