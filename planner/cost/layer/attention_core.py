"""The core of attention with a kernel: seconds of either pass, and what it keeps."""

from __future__ import annotations

from typing import NamedTuple

from planner.cost.case import Case
from planner.formulas.attention import (
    attention_backward_seconds,
    attention_extrapolated,
    attention_forward_seconds,
    visible_keys,
)
from planner.formulas.unfused_attention import (
    unfused_attention_backward_seconds,
    unfused_attention_forward_seconds,
)
from planner.inputs.model import Attention, LatentAttention
from planner.numeric import Num, ceil, floor, maximum, minimum, where
from planner.techniques.attention import AttentionKernel
from planner.techniques.attention.family import Slowdown

BLACKWELL_CHIPS = (10.0, 11.0)
"""Compute capabilities of Blackwell's datacentre chips, the second not among them. [-]"""

FP8_ATTENTION = {"hopper": 1 / 1.20, "blackwell": 1 / 1.05}
"""Time of attention with queries, keys and values in fp8 over that in 16 bit, by architecture. [-]

Medians over 218 pairs of forward calls at 8,192 tokens and heads of 128: FlashAttention-3 on H100 and
TensorRT-LLM's kernels on B200 (SGLang 0.5.14, as AIConfigurator measured it). Backward is taken to gain as
much.
"""

SPLIT_SOFTMAX = 4.0
"""Kernels that the softmax of kept scores takes more where it is split: to cast, scale and mask, and to cast
back. [-]
"""


def attention_outside(case: Case, kernel: AttentionKernel, seq: float, head_dim: float) -> Num:
    """One where no curve was fitted to such a sequence or head size, else zero."""
    kernels = case.kernels
    if kernel.keeps_scores:
        return float(kernels.borrowed)
    other = round(head_dim) not in kernels.attention
    return maximum(attention_extrapolated(seq, kernels.attention_for(round(head_dim))), float(other))


class CoreSize(NamedTuple):
    """Sizes of one call of attention."""

    rows: Num
    """Heads of all sequences of a micro-batch. [-]"""
    seq: float
    """Tokens of a sequence. [element]"""
    share: Num
    """Queries of a sequence on a rank, over its tokens. [-]"""
    visible: Num
    """Keys that a query sees in the mean. [element]"""
    head_dim: float
    """Width of a head. [element]"""
    shared: Num = 1.0
    """Heads that read the same keys and values. [-]"""

    @property
    def queries(self) -> Num:
        """Queries of a sequence on a rank. [element]"""
        return self.seq * self.share


def attention_seconds(case: Case, kernel: AttentionKernel, size: CoreSize) -> tuple[Num, Num, Num]:
    """Seconds forward and backward with a kernel, and bytes of its internals that are kept."""
    kernels, (rows, seq, _, visible, head_dim, shared), queries = case.kernels, size, size.queries
    if kernel.keeps_scores:
        forward, backward = _scores_seconds(case, kernel, rows, queries, seq, head_dim)
        return forward, backward, case.traits.attention.score_bytes * rows * queries * seq
    size_of_curve = max(round(head_dim), 128) if kernel.narrow_as_wide else round(head_dim)
    curve = kernels.attention_for(size_of_curve)
    arch = case.pool.accelerator.arch
    slower = kernel.slower("" if curve.chosen else arch)
    ordered = kernel.ordered_rates if case.traits.host.deterministic else None
    capability = case.pool.accelerator.compute_capability or 0
    if ordered and BLACKWELL_CHIPS[0] <= capability < BLACKWELL_CHIPS[1]:
        rate, back = ordered
        slower = Slowdown(curve.rate / rate, curve.backward_rate / back)
    if case.traits.attention.fp8 and case.precision.quantises:
        faster = FP8_ATTENTION.get(arch, 1.0)
        slower = Slowdown(slower.forward * faster, slower.backward * faster)
    sizes = (1.0, rows, queries, visible, head_dim)
    forward = attention_forward_seconds(*sizes, curve, shared) * slower.forward
    backward = attention_backward_seconds(*sizes, curve, shared) * slower.backward
    if ordered:
        backward = ordered_backward_seconds(case, backward, rows, queries, seq, head_dim)
    return forward, backward, 4.0 * rows * queries


KEY_BLOCK = 128.0
"""Keys that one thread block of FlashAttention-2's backward takes. [element]"""


def ordered_backward_seconds(
    case: Case, backward: Num, rows: Num, queries: Num, seq: float, head_dim: float
) -> Num:
    r"""Seconds of FlashAttention-2's backward where the sums of the queries' gradients come in one order.

    .. math:: t' = t \frac{\lceil r s / M \rceil M}{r s} + \frac{8 (s - 1) r q d}{W}, \quad
              s = \min\left(\lceil M / r \rceil, \lceil n / 128 \rceil\right)

    Each of the :math:`r` heads of all sequences is split into :math:`s` parts, so that there are at least as
    many as the :math:`M` multiprocessors: a second round of a few holds up all. Each part sums into a buffer
    of its own, which is cleared before and added up after.

    References
    ----------
    .. [1] FlashAttention 2.8, ``csrc/flash_attn/src/flash_bwd_launch_template.h``,
       ``run_flash_bwd_seqk_parallel`` (``gridDimx``), and ``flash_api.cpp``, ``mha_bwd`` (``dq_accum``).
    """
    most = float(case.pool.accelerator.multiprocessors or 0)
    if not most:
        return backward
    parts = minimum(ceil(most / rows), ceil(seq / KEY_BLOCK))
    blocks = rows * parts
    rounds = ceil(blocks / most) * most / maximum(blocks, most)
    cleared = 8.0 * (parts - 1.0) * rows * queries * head_dim
    return backward * rounds + cleared / case.kernels.memory_bandwidth


def _scores_seconds(
    case: Case, kernel: AttentionKernel, rows: Num, queries: Num, seq: float, head_dim: float
) -> tuple[Num, Num]:
    """Seconds forward and backward where the scores go through memory, split softmax or not."""
    kernels, size = case.kernels, (1.0, rows, queries, seq, head_dim)
    forward = unfused_attention_forward_seconds(*size, kernels.unfused)
    backward = unfused_attention_backward_seconds(*size, kernels.unfused)
    if not kernel.joins_softmax:
        return forward, backward
    split, fused = split_softmax(rows) > 0, kernels.fused_softmax
    return (
        where(split, forward, unfused_attention_forward_seconds(*size, fused)),
        where(split, backward, unfused_attention_backward_seconds(*size, fused)),
    )


def split_softmax(rows: Num) -> Num:
    """Whether Megatron's fused softmax leaves so many heads of sequences to separate kernels.

    Its kernel takes heads times sequences of a micro-batch by fours.

    References
    ----------
    .. [1] Megatron-LM, ``megatron/model/fused_softmax.py``: ``is_kernel_available``.
    """
    result: Num = where(floor(rows / 4.0) * 4.0 == rows, 0.0, 1.0)
    return result


def keys_of(mixer: Attention | LatentAttention, seq: float, document: float | None = None) -> Num:
    """Keys that a query of attention sees in the mean. [-]"""
    if isinstance(mixer, Attention):
        return mean_keys(seq, mixer.reach, mixer.chunked, document, mixer.causal)
    return mean_keys(seq, mixer.reach, False, document)


def mean_keys(
    seq: float, window: int | None, chunked: bool, document: float | None = None, causal: bool = True
) -> Num:
    """Keys that a query sees in the mean, within a sliding window or a chunk, in its document. [-]

    All before it where it is ``causal``, else as many before it as after it.

    Examples
    --------
    A sequence of 4,096 tokens, whole, of documents of 256, and of these through a window of 128:

    >>> [float(mean_keys(4096.0, *seen)) for seen in ((None, False), (None, False, 256), (128, False, 256))]
    [2048.0, 128.0, 96.0]
    """
    seq = min(seq, float(document or seq))
    reach = min(seq, float(window or seq))
    if not causal:
        side = (reach - 1.0) / 2.0
        return reach if chunked or reach == seq else reach - side * (side + 1.0) / seq
    return visible_keys(reach, reach, reach) if chunked else visible_keys(seq, seq, reach)
