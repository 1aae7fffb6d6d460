"""Distributed Shampoo: statistics of both sides of each matrix beside two moments, dealt out to replicas."""

from planner.formulas.shampoo import shampoo_flops, shampoo_kept
from planner.techniques.optimizers.family import MatrixStep, Optimizer

ENTRY = Optimizer(
    name="shampoo",
    cite="arXiv:2309.06497",
    states=2,
    state_bytes=4.0,
    matrix=MatrixStep(flops=shampoo_flops, kept=shampoo_kept, rate_share=0.5, dealt=True),
    aliases=("distributed-shampoo",),
)
