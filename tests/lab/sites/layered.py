"""Steps of replicas layer by layer: reductions start in the backward pass and are awaited in the forward.

A step is a forward pass through all layers, then for each layer from the last the backward pass to its inputs
(not of the first) and to its weights, all of one length. The reduction of a layer starts after its weights'
gradient, one at a time on the link; its next forward pass waits for it, or that some steps later.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from planner.numeric import Column

Sends = Callable[[int, int], bool]
"""Whether a layer is reduced at the end of a step: (step, layer)."""


def layered_utilisation(
    layers: int, step: float, transfer: Column, steps: int, sends: Sends, delay: int = 0
) -> Column:
    """Return the share of the time in which a replica computes, for each of many links at once.

    Parameters
    ----------
    layers : int
        Layers of the model. [-]
    step : float
        Compute of a step. [s]
    transfer : Column
        Time of one layer's reduction on each link. [s]
    steps : int
        Steps that are played; a reduction that is awaited later ends them too. [-]
    sends : callable
        Which layers are reduced after which steps.
    delay : int
        Whole steps for which a layer goes on without the result. [-]

    References
    ----------
    .. [1] A. Douillard et al., "Streaming DiLoCo with overlapping communication," arXiv:2501.18512, sec. 3.1.
    """
    node = step / (3 * layers - 1)
    now, link = np.zeros_like(transfer), np.zeros_like(transfer)
    awaited: dict[tuple[int, int], Column] = {}
    for number in range(steps):
        for layer in range(layers):
            ready = awaited.pop((number, layer), None)
            now = now + node if ready is None else np.maximum(now, ready) + node
        for layer in reversed(range(layers)):
            now = now + (2 * node if layer else node)
            if sends(number, layer):
                link = np.maximum(link, now) + transfer
                awaited[number + 1 + delay, layer] = link
    end = now
    for ready in awaited.values():
        end = np.maximum(end, ready)
    return steps * step / end


def every_step(step: int, layer: int) -> bool:
    """Whether plain data parallelism reduces a layer: always."""
    return True


def at_the_end_of(inner_steps: int) -> Sends:
    """Return the layers that DiLoCo reduces: all of them, after so many steps."""

    def sends(step: int, layer: int) -> bool:
        return (step + 1) % inner_steps == 0

    return sends


def in_turns(inner_steps: int, layers: int, fragment_layers: int = 3) -> Sends:
    """Return the layers that streaming reduces: fragments, strided through the depth, each at its offset."""
    fragments = layers // fragment_layers
    offsets = [round(place * inner_steps / fragments) for place in range(fragments)]

    def sends(step: int, layer: int) -> bool:
        return step % inner_steps == offsets[layer % fragments]

    return sends
