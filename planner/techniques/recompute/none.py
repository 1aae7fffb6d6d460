"""No recompute: every activation that backward needs is kept."""

from planner.techniques.recompute.family import Recompute, RecomputeChoice


def choice(argument: str) -> RecomputeChoice:
    """Take no argument."""
    if argument:
        raise ValueError("none, without an argument")
    return RecomputeChoice(whole_layer=False, modules=frozenset(), layers=0.0)


ENTRY = Recompute(name="none", cite="arXiv:1604.06174", choice=choice)
