"""XLA's partitioner: weights gathered for one product after the other, layers as one loop."""

from planner.numeric import Num
from planner.techniques.engines._fsdp import whole_moments
from planner.techniques.engines._gathering import head_bytes
from planner.techniques.engines.family import GATHERED_BYTES, Engine, Moment, Moments, Step

ASYNC_PRODUCTS = 2.0
"""Products whose weights, or gradients, are there at once: one that runs and one that travels. [-]"""


def loop_moments(step: Step) -> Moments:
    """Return the moments of a program whose layers are one loop, compiled with a place for each tensor.

    Two compete: the loss, with the head gathered; and the loop of backward, through which all that forward
    has left and the gradients of all layers, which are its result, have their places, with one layer rebuilt,
    the weights of two products gathered and the gradients of two to be reduced.

    References
    ----------
    .. [1] Y. Xu et al., "GSPMD," arXiv:2105.04663, sec. 3.2 (weights gathered where they are used).
    .. [2] S. Wang et al., "Overlap communication with dependent computation via decomposition," ASPLOS 2023,
       doi:10.1145/3567955.3567959: messages run beside the product before or after.
    .. [3] https://docs.jax.dev/en/latest/_autosummary/jax.lax.scan.html: what a loop stacks.
    """
    passes = step.passes
    loss = passes.activations + head_bytes(step) + step.earlier_gradients
    travelling: Num = ASYNC_PRODUCTS * (GATHERED_BYTES + step.reduce_bytes) * passes.product
    loop = passes.activations + passes.rebuilt + travelling + step.gradients
    return (
        Moment("the loop of backward", "backward", loop, passes.activations, step.gradients),
        Moment("the loss", "loss", loss, passes.activations, step.earlier_gradients),
    )


ENTRY = Engine(
    name="xla",
    cite="arXiv:2105.04663 (GSPMD); MaxText 02df1543: MaxText/layers/models.py, nn.scan over layers",
    whole=whole_moments,
    sharded=loop_moments,
    lasting=False,
    at_rest=True,
    by_product=True,
)
