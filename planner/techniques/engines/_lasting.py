"""Weights and gradients that live through the whole step."""

from __future__ import annotations

from planner.techniques.engines.family import Moment, Moments, Step


def lasting_moments(step: Step) -> Moments:
    """Return the backward of the layer that needs most, and the loss; all activations are there at both."""
    passes = step.passes
    inside = passes.rebuilt + passes.loss * step.loss_beside
    return (
        Moment("a layer's backward", "backward", inside + step.waiting, passes.activations, spans=False),
        Moment("the loss", "loss", passes.loss + step.waiting, passes.activations, spans=False),
    )
