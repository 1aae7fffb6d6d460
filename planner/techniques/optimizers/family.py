"""Optimizers: what they keep for each parameter, and what a step moves."""

from __future__ import annotations

from collections.abc import Callable

from planner.dataclasses import dataclass
from planner.inputs.workload import DTYPE_BYTES
from planner.numeric import Num

OfMatrix = Callable[[Num, Num], Num]
"""Function of (rows, columns) of a matrix."""


def nothing(m: Num, n: Num) -> Num:
    """Return zero, whatever the matrix. [element]"""
    return 0.0 * m * n


@dataclass(frozen=True)
class MatrixStep:
    """What a step does with each matrix of the layers beside its moments."""

    flops: OfMatrix
    """Arithmetic. [FLOP]"""
    kept: OfMatrix = nothing
    """What is kept in fp32 beside the moments. [element]"""
    exchanged: OfMatrix | None = None
    """What replicas reduce in the place of its gradient, where that is something else. [element]"""
    whole: bool = False
    """Whether the rank that steps it needs it whole."""
    dealt: bool = False
    """Whether replicas that share no states deal the work out and gather its results."""
    rate_share: float = 1.0
    """Share of the rate of 16-bit products that its arithmetic reaches: a half in TF32. [-]"""


@dataclass(frozen=True)
class Optimizer:
    """One optimizer."""

    name: str
    """As on the command line."""
    cite: str
    """Where it is described."""
    states: int
    """Moments kept for each parameter."""
    state_bytes: float
    """Bytes of one moment, its scales included, where the user names no dtype. [byte]"""
    master_bytes: float = 4.0
    """Bytes of the master weight. [byte]"""
    embedding_state_bytes: float | None = None
    """Bytes of one moment of an embedding, where others have fewer. [byte]"""
    matrix: MatrixStep | None = None
    """What a step does with each matrix of the layers beside its moments; embedding, head and norms are
    stepped by AdamW then."""
    precision_aware: bool = False
    """Whether Transformer Engine's fused Adam steps it: it takes states and gradients in reduced dtypes."""
    aliases: tuple[str, ...] = ()
    """Other names."""

    @property
    def end_states(self) -> int:
        """Moments kept for each parameter of embedding and head."""
        return 2 if self.matrix is not None else self.states

    @property
    def quantised(self) -> bool:
        """Whether moments rest in fewer than 16 bits, so that they have no dtype that could be asked for."""
        return self.state_bytes < DTYPE_BYTES["bf16"]

    @property
    def whole_matrices(self) -> bool:
        """Whether a step needs matrices whole."""
        return self.matrix is not None and self.matrix.whole

    def kept_bytes(self, state_bytes: float | None = None, master_bytes: float | None = None) -> float:
        """Bytes kept for each parameter, master weight included. [byte]"""
        state = self.state_bytes if state_bytes is None else state_bytes
        return self.states * state + (self.master_bytes if master_bytes is None else master_bytes)


def unscaled_bytes(optimizer: Optimizer, state_dtype: str | None, master_dtype: str | None) -> float:
    """Bytes of the fp32 copies of a weight's reduced states that Transformer Engine's step makes and steps.

    A group of weights is copied whole before it is stepped. Moments in bf16 are stepped as they are.

    Parameters
    ----------
    optimizer : Optimizer
        Whose moments they are; other ones than Adam's are not stepped by it.
    state_dtype, master_dtype : str, optional
        Of the moments and of the master weight; None for fp32.

    Returns
    -------
    float
        Bytes for each parameter. [byte]

    References
    ----------
    .. [1] NVIDIA, Transformer Engine d0067d0d, ``transformer_engine/pytorch/optimizers/fused_adam.py``,
       ``get_unscaled_state`` and ``fuse_unscale`` (459e7cf4, since release 2.14).

    Examples
    --------
    >>> adam = Optimizer("adamw", "arXiv:1711.05101", states=2, state_bytes=4.0, precision_aware=True)
    >>> unscaled_bytes(adam, "fp8", "fp16"), unscaled_bytes(adam, "bf16", None)
    (12.0, 0.0)
    """
    scaled = ("fp16", "fp8")
    moments = optimizer.states * (state_dtype in scaled) + (master_dtype in scaled)
    return DTYPE_BYTES["fp32"] * moments * optimizer.precision_aware


def step_traffic(kept_bytes: float, gradient_bytes: float, weight_bytes: float, reads_weight: bool) -> float:
    """Bytes of device memory that a step moves for each parameter: states both ways, gradient in, weight out.

    A weight that is its own master, or one half of it, goes in too.

    Parameters
    ----------
    kept_bytes, gradient_bytes, weight_bytes : float
        Bytes of optimizer state with master weight, of the gradient, and of the weight. [byte]
    reads_weight : bool
        Whether the weight goes in too.

    Returns
    -------
    float
        Bytes for each parameter. [byte]

    References
    ----------
    .. [1] D. P. Kingma, J. Ba, "Adam: A Method for Stochastic Optimization," arXiv:1412.6980, algorithm 1.

    Examples
    --------
    Adam with fp32 master, moments and gradient, and 16-bit weights:

    >>> step_traffic(12.0, 4.0, 2.0, reads_weight=False)
    30.0
    """
    return 2 * kept_bytes + gradient_bytes + (1 + reads_weight) * weight_bytes
