"""Lion: one moment and a master weight; a step goes by the sign of the moment alone."""

from planner.techniques.optimizers.family import Optimizer

ENTRY = Optimizer(name="lion", cite="arXiv:2302.06675", states=1, state_bytes=4.0)
