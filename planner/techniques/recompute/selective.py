"""Selective recompute: only parts that are large in memory and cheap in arithmetic are rebuilt."""

import math

from planner.techniques.recompute.family import Recompute, RecomputeChoice, module_set


def choice(argument: str) -> RecomputeChoice:
    """Take modules joined by plus signs; the attention core where none is named."""
    modules = module_set(argument) if argument else frozenset({"core_attn"})
    return RecomputeChoice(whole_layer=False, modules=modules, layers=math.inf)


ENTRY = Recompute(name="selective", cite="arXiv:2205.05198", choice=choice)
