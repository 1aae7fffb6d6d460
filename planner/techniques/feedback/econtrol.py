"""EControl: the error comes back at a set strength, beside an estimate of the gradient that replicas keep."""

from planner.techniques.feedback.family import Feedback

ENTRY = Feedback(
    name="econtrol",
    cite="arXiv:2311.05645",
    about="the error, and the sum of what was sent",
    penalty="converges whatever data replicas have; no figure for language models (arXiv:2311.05645)",
    copies=2.0,
)
