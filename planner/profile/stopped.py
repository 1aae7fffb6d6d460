"""Why a measurement ended before its time."""

from planner.errors import PlannerError


class Stopped(PlannerError):
    """Measuring cannot start or go on; the message says why, and what of it is kept."""
