"""Momentum correction of Deep Gradient Compression: momenta that were not sent add up where they are."""

from planner.techniques.feedback.family import Feedback

ENTRY = Feedback(
    name="momentum-correction",
    cite="arXiv:1712.01887",
    about="a momentum, and the sum of those that were not sent",
    penalty="none seen at 0.1% of the gradients of small image and speech models (arXiv:1712.01887)",
    copies=2.0,
    aliases=("dgc",),
)
