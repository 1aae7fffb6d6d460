"""Error feedback: what was not sent is added to the next exchange."""

from planner.techniques.feedback.family import Feedback

ENTRY = Feedback(
    name="error-feedback",
    cite="arXiv:2508.15706",
    about="the error of the last exchange",
    penalty="no figure against data parallelism (arXiv:2508.15706)",
    copies=1.0,
    aliases=("ef",),
)
