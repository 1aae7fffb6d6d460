"""Operators: the parts of a block, each with its time, what it leaves for backward, and its weights."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any, NamedTuple

from planner.cost.case import Case
from planner.cost.layer.adapters import adapter_params, adapter_seconds, bottleneck_bytes, copy_bytes, learned
from planner.cost.layer.attention_core import (
    SPLIT_SOFTMAX,
    CoreSize,
    attention_outside,
    attention_seconds,
    keys_of,
    split_softmax,
)
from planner.cost.layer.casts import gradient_cast_seconds, input_cast_seconds
from planner.cost.layer.context_parallel import gathered_bytes, kept_attention
from planner.cost.layer.heads import head_ranks
from planner.dataclasses import dataclass, replace
from planner.formulas.attention import attention_flops
from planner.formulas.elementwise import Traffic, strided_seconds
from planner.formulas.gemm import GemmCurve, gemm_extrapolated, gemm_seconds
from planner.formulas.ring_calls import merged_each_step_time, ring_call_time
from planner.inputs.model import Attention, LatentAttention
from planner.numeric import Num, ceil, maximum, where
from planner.plan import Plan
from planner.runtimes.traits import Traits
from planner.techniques.attention import ATTENTION_KERNELS, AttentionKernel
from planner.techniques.rings import RINGS


@dataclass(frozen=True)
class Operator:
    """One operator of a block on one rank, for one micro-batch."""

    name: str
    """Unique in its block."""
    module: str
    """The part of the block that recompute names."""
    forward: Num
    backward: Num
    """Seconds. [s]"""
    kept: Num = 0.0
    """Bytes that backward needs and that recomputing the module does not free. [byte]"""
    saved: Num = 0.0
    """Bytes of results and internals that backward needs and recomputing the module frees. [byte]"""
    result: Num = 0.0
    """Bytes of its result, and so of the gradient that backward makes of it, where they may be a layer's
    largest. [byte]"""
    flops: Num = 0.0
    """FLOPs of the products, forward. [FLOP]"""
    weight_gradient: Num = 0.0
    """Of ``backward``, what no other pass waits for. [s]"""
    params: Num = 0.0
    """Weights on this rank. [element]"""
    stored: Num = 0.0
    """Bytes of these at rest, adapters and low-bit copies included. [byte]"""
    trained: Num = 0.0
    """Weights that learn, adapters included. [element]"""
    second: Num = 0.0
    """Share that runs again where every second product, and all that is bound by memory, is recomputed.
    [-]"""
    launches: Num = 0.0
    """Kernels that a pass launches beside those of its kind. [-]"""
    reruns: Num = 0.0
    """Times that it runs forward in its own backward, beside what recompute of the layer repeats. [-]"""
    expert: bool = False
    """Whether the weights belong to routed experts."""
    outside_forward: Num = 0.0
    outside_backward: Num = 0.0
    """Seconds of either pass that come from outside a curve's fitted range. [s]"""

    def with_values(self, **values: Any) -> Operator:
        """Return the operator with fields changed."""
        return replace(self, **values)

    @property
    def extrapolated(self) -> Num:
        """Seconds of both passes that come from outside a curve's fitted range. [s]"""
        return self.outside_forward + self.outside_backward


@dataclass(frozen=True)
class Pricer:
    """Prices operators for the ranks of a plan or a batch of plans."""

    case: Case
    """The job and its techniques."""
    plan: Plan
    """The degrees; only tp, cp, ep, etp and micro_batch matter here."""

    @cached_property
    def tokens(self) -> Num:
        """Tokens of a micro-batch on one context-parallel rank. [-]"""
        return self.plan.micro_batch * self.case.workload.seq_len / self.plan.cp

    @cached_property
    def local_tokens(self) -> Num:
        """Tokens where norms and residuals run: a part of them with sequence parallelism. [-]"""
        return self.tokens / self.plan.tp if self.case.sequence_parallel else self.tokens

    @cached_property
    def kept_attention(self) -> Num:
        """One where recompute of whole layers spares attention, else zero. [-]"""
        return kept_attention(self.case, self.plan)

    def elementwise(
        self, name: str, module: str, elements: Num, traffic: Traffic, kept: Num = 0.0, saved: Num = 0.0,
        params: Num = 0.0,
    ) -> Operator:  # fmt: skip
        """Price an operator bound by memory."""
        case, kernels = self.case, self.case.kernels
        stream = kernels.stream_for(name, traffic.kernel)
        rate = elements / stream.bandwidth * case.traits.kernels.elementwise_traffic
        trained = learned(case, name, params)
        forward = stream.launch + rate * traffic.forward
        backward = stream.launch + rate * traffic.backward
        if traffic.strided is not None and not stream.measured:
            known = case.pool.accelerator.multiprocessors or float("inf")
            each = elements * strided_seconds(known, stream.bandwidth)
            forward, backward = forward + each * traffic.strided[0], backward + each * traffic.strided[1]
        return Operator(
            name,
            module,
            forward=forward,
            backward=backward,
            kept=kept,
            saved=saved,
            params=params,
            stored=params * case.plain_bytes + copy_bytes(case, trained),
            trained=trained,
            second=1.0,
            outside_forward=forward if kernels.borrowed else 0.0,
            outside_backward=backward if kernels.borrowed else 0.0,
        )

    def linear(
        self,
        name: str,
        module: str,
        rows: Num,
        inputs: Num,
        outputs: Num,
        saved: Num = 0.0,
        bias: float = 0.0,
        second: Num = 0.0,
    ) -> Operator:
        """Price a linear layer: a product forward, two backward, casts, and the gradient's accumulation.

        ``bias`` is the share of its outputs that have one; ``second`` as for `Operator`.
        """
        case = self.case
        curve = product_curve(case, name)
        column, row = name in COLUMN_SPLIT, name in ROW_SPLIT
        crowded = self._crowded(curve) if column or row else 1.0
        forward = gemm_seconds(rows, outputs, inputs, curve) * (crowded if row else 1.0)
        data = gemm_seconds(rows, inputs, outputs, curve) * (crowded if column else 1.0)
        if curve.quantises:
            forward = forward + input_cast_seconds(case, name, rows * inputs, curve)
            data = data + gradient_cast_seconds(case, name, rows * outputs, curve)
        weights = inputs * outputs + bias * outputs
        weight, trained = self._weight_gradient(name, rows, inputs, outputs, weights, curve)
        weight = weight * (crowded if column else 1.0)
        if not learned(case, name, 1.0):
            trained = adapter_params(case, name, inputs, outputs)
            saved = saved + bottleneck_bytes(case, name, rows)
        extra, back = self._beside_product(name, rows, inputs, outputs)
        if case.transposes:
            back = back + 2 * inputs * outputs / case.kernels.memory_bandwidth
        derate = case.derate
        outside = gemm_extrapolated(rows, outputs, inputs, curve)
        beyond = gemm_extrapolated(outputs, inputs, rows, curve) * case.method.trains_base
        return Operator(
            name,
            module,
            forward=forward / derate + extra,
            backward=(data + weight) / derate + back,
            saved=saved,
            result=2 * rows * outputs,
            flops=2 * rows * inputs * outputs,
            weight_gradient=weight / derate,
            params=weights,
            stored=self.stored_bytes(weights, trained),
            trained=trained,
            second=second,
            outside_forward=outside * (forward / derate + extra),
            outside_backward=outside * (data / derate + back) + beyond * weight / derate,
        )

    def stored_bytes(self, weights: Num, trained: Num) -> Num:
        """Bytes at rest of a linear layer's weights, with what learns beside them. [byte]"""
        case = self.case
        if case.method.trains_base:
            return weights * case.resting_bytes(case.weight_bytes)
        return weights * case.frozen_linear_bytes + trained * case.weight_bytes

    def _crowded(self, curve: GemmCurve) -> Num:
        """Time of a product that leaves multiprocessors to the message it hides, over that of one alone. [-]

        References
        ----------
        .. [1] NVIDIA, Transformer Engine d0067d0d, ``transformer_engine/pytorch/module/base.py``,
           ``initialize_ub``: forward the reduce-scatter after a row-split product is hidden by it, backward
           the gather and the reduce-scatter of a column-split one by its two products.
        """
        taken = self.case.traits.tensor.message_multiprocessors
        if not (taken and self.case.sequence_parallel and self.case.traits.tensor.exposed < 1):
            return 1.0
        overlaps = (self.plan.tp > 1) & self.case.pool.joins(self.plan.tp)
        return where(overlaps, curve.multiprocessors / (curve.multiprocessors - taken), 1.0)

    def _weight_gradient(
        self, name: str, rows: Num, inputs: Num, outputs: Num, weights: Num, curve: GemmCurve
    ) -> tuple[Num, Num]:
        """Seconds of the weight gradient and the parameters that learn; none where they are frozen."""
        case = self.case
        if not learned(case, name, 1.0):
            return 0.0, 0.0
        accumulate = inputs * outputs * accumulation_bytes(case) / case.kernels.memory_bandwidth
        return gemm_seconds(outputs, inputs, rows, curve) + accumulate, learned(case, name, weights)

    def _beside_product(self, name: str, rows: Num, inputs: Num, outputs: Num) -> tuple[Num, Num]:
        """Seconds forward and backward to rebuild quantised base weights, and of adapters."""
        case = self.case
        if case.method.trains_base:
            return 0.0, 0.0
        rebuilt = inputs * outputs * case.method.dequantise_bytes / case.kernels.memory_bandwidth
        local_in, local_out = (
            self.local_tokens if name in split else rows for split in (COLUMN_SPLIT, ROW_SPLIT)
        )
        moved = (local_in * inputs, local_out * outputs)
        thin, thin_back = adapter_seconds(case, name, rows, inputs, outputs, moved)
        return rebuilt + thin, 2 * rebuilt + thin_back

    def attention(self, mixer: Attention | LatentAttention, heads: Num, shared: Num = 1.0) -> Operator:
        """Price the attention core with the runtime's kernel, shared over context parallelism."""
        case, plan = self.case, self.plan
        qk_dim, value_dim = mixer.core_widths
        shares = head_ranks(case, plan, mixer)
        local_heads = ceil(heads / shares) if case.context.shares_heads else heads
        seq = float(case.workload.seq_len)
        share = shares / plan.cp
        rows = plan.micro_batch * local_heads
        head_dim = (qk_dim + value_dim) / 2
        visible = keys_of(mixer, seq, case.workload.attended_tokens)
        flops = attention_flops(plan.micro_batch, local_heads, seq * share, visible, head_dim)
        size = CoreSize(rows, seq, share, visible, head_dim, shared)
        core = self._core(case.attention_kernel, size)
        if case.context.kernel:
            kernel = ATTENTION_KERNELS[case.context.kernel]
            own = self._core(kernel, size)
            core = Core(*(where(plan.cp > 1, *values) for values in zip(own, core, strict=True)))
        ring = plan.cp / shares
        stitching = 1.0 if case.context.kernel else stitched_time(case.traits, ring, seq * share, visible)
        slow = stitching * case.context.idle_factor(ring) / (case.derate * case.traits.attention.share)
        outside = core.outside * slow
        return Operator(
            "attention",
            "core_attn",
            forward=core.forward * slow + case.traits.host.read_back_seconds,
            backward=core.backward * slow,
            kept=2 * self.tokens * heads * value_dim,
            saved=core.saved,
            result=core.widest + gathered_bytes(case, plan, self.tokens, mixer),
            flops=flops,
            launches=core.launches,
            outside_forward=outside * core.forward,
            outside_backward=outside * core.backward,
        )

    def _core(self, kernel: AttentionKernel, size: CoreSize) -> Core:
        """Price an attention kernel on the device's own."""
        case, rows, seq = self.case, size.rows, size.seq
        forward, backward, saved = attention_seconds(case, kernel, size)
        return Core(
            forward,
            backward,
            saved,
            widest=2 * rows * seq * size.share * seq if kernel.keeps_scores else 0.0,
            launches=SPLIT_SOFTMAX * split_softmax(rows) if kernel.joins_softmax else 0.0,
            outside=attention_outside(case, kernel, seq, size.head_dim),
        )


def slowed(product: Operator, slowdown: Num) -> Operator:
    """Return a product that takes ``slowdown`` times as long in every pass."""
    return product.with_values(
        forward=product.forward * slowdown,
        backward=product.backward * slowdown,
        weight_gradient=product.weight_gradient * slowdown,
    )


STITCHED_TOKENS = 4096.0
"""Tokens of a part up to which ``cp_slowdown`` holds: runs that tell it have 8,192 over two. [element]"""


def stitched_time(traits: Traits, cp: Num, tokens: Num, visible: Num) -> Num:
    """Time of attention whose keys come from ``cp`` ranks, over that of as many of its own. [-]"""
    if RINGS[traits.context.ring].merges_each_step:
        return merged_each_step_time(traits.context.slowdown, cp)
    slower = ring_call_time(traits.context.slowdown, tokens, visible, STITCHED_TOKENS)
    return where(cp > 1, slower, 1.0)


class Core(NamedTuple):
    """What an attention kernel takes, before what slows it in training."""

    forward: Num
    backward: Num
    """Seconds. [s]"""
    saved: Num
    widest: Num
    """Bytes of its internals that backward needs, and of its widest result. [byte]"""
    launches: Num
    """Kernels that a pass launches beside those of its kind. [-]"""
    outside: Num
    """One where its time comes from outside a curve's fitted range, else zero. [-]"""


IN_16_BIT = frozenset({"head", "router"})
"""Products that run in 16 bit whatever the others do.

References
----------
.. [1] Megatron-LM, ``megatron/core/models/gpt/gpt_model.py`` and ``transformer/moe/router.py``: output layer
   and router are not layers of Transformer Engine.
.. [2] torchtitan, ``torchtitan/components/quantization/float8.py``: ``filter_fqns`` names the output layer.
"""


SPLIT_PAIRS = (
    ("qkv", "attention_out"),
    ("mixer_in", "mixer_out"),
    ("mlp_in", "mlp_out"),
    ("shared_experts_in", "shared_experts_out"),
)
"""Products whose weights tensor parallelism splits by columns, so that their input is gathered, each with the
one after it that is split by rows, whose result is reduced.
"""

COLUMN_SPLIT, ROW_SPLIT = map(frozenset, zip(*SPLIT_PAIRS, strict=True))


def product_curve(case: Case, name: str) -> GemmCurve:
    """Curve of the matrix products of the linear layer called ``name``."""
    low = name not in IN_16_BIT or (name == "head" and case.traits.low_bit.head == case.precision.name)
    return case.kernels.gemm[case.precision.linear if low else case.precision.activation]


def accumulation_bytes(case: Case) -> float:
    """Bytes moved to add one weight's gradient to its buffer, beside the product's own 2-byte result. [byte]

    Fused, the product reads and writes the buffer instead of its result; otherwise the result is read too.
    """
    return 2 * case.gradient_bytes + (-2.0 if case.traits.kernels.fused_weight_gradient else 2.0)


def total(operators: Iterable[Operator], field: str) -> Num:
    """Sum of one field over operators."""
    result: Num = 0.0
    for operator in operators:  # not ``sum``, which adds floats in another way from Python 3.12 on
        result = result + getattr(operator, field)
    return result


def largest(operators: Iterable[Operator], field: str) -> Num:
    """Largest of one field over operators."""
    result: Num = 0.0
    for operator in operators:
        result = maximum(result, getattr(operator, field))
    return result
