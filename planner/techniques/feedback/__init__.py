"""What keeps what a compression did not send, by name."""

from planner.registry import load_family
from planner.techniques.feedback.family import Feedback

FEEDBACKS = load_family(__name__, Feedback)

__all__ = ["FEEDBACKS", "Feedback"]
