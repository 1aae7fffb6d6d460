"""Muon: one momentum for the matrices of the layers, orthogonalised whole; AdamW for all else.

Five Newton-Schulz iterations need every matrix whole. Ranks that share states either gather the momentum in
bf16 (arXiv:2502.16982, algorithm 1), or own whole matrices each and gather nothing (the layer-wise optimizer
of Megatron-core); tensor-parallel ranks gather it in fp32 and do the same work.
`planner.cost.traffic.whole_matrices` prices messages, arithmetic and padding.
"""

from planner.formulas.newton_schulz import newton_schulz_flops
from planner.techniques.optimizers.family import MatrixStep, Optimizer

ENTRY = Optimizer(
    name="muon",
    cite="arXiv:2502.16982",
    states=1,
    state_bytes=4.0,
    matrix=MatrixStep(flops=newton_schulz_flops, whole=True),
)
