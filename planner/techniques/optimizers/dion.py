"""Dion: a momentum for the matrices of the layers, orthonormalised in low rank; AdamW for all else."""

from planner.formulas.low_rank_step import dion_exchanged, dion_flops, dion_kept
from planner.techniques.optimizers.family import MatrixStep, Optimizer

ENTRY = Optimizer(
    name="dion",
    cite="arXiv:2504.05295",
    states=1,
    state_bytes=4.0,
    matrix=MatrixStep(flops=dion_flops, kept=dion_kept, exchanged=dion_exchanged),
)
