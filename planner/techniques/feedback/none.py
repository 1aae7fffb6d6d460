"""What is not sent is lost."""

from planner.techniques.feedback.family import Feedback

ENTRY = Feedback(
    name="none",
    cite="arXiv:2412.01152",
    about="nothing",
    penalty="that of the compression",
)
