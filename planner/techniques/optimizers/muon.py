"""Muon: one momentum, and five Newton-Schulz iterations on every whole matrix.

An iteration on an a by b matrix, a the smaller side, costs 4 a a b + 2 a a a FLOP, at most 6 a for each
parameter, and there are five.
"""

from planner.techniques.optimizers._family import Optimizer

ENTRY = Optimizer(name="muon", cite="arXiv:2502.16982", states=1, state_bytes=4.0, step_flops=30.0)
