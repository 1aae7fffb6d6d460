"""What keeps what a compression did not send, by name."""

import sys

from planner.registry import load_family
from planner.techniques.feedback.family import Feedback

FEEDBACKS = load_family(sys.modules[__name__], Feedback)

__all__ = ["FEEDBACKS", "Feedback"]
