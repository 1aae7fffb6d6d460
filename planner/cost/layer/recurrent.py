"""The operators of mixers that pass a state along the sequence: products, convolution, scan, gated norm."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from planner.cost.layer.norms import norm_is_fused
from planner.cost.layer.operators import Operator, Pricer
from planner.cost.layer.state_passing import held_states
from planner.formulas import elementwise as traffic
from planner.formulas.recurrence import ScanKernel, scan_seconds, token_seconds
from planner.inputs.mixers.mamba1 import Mamba1
from planner.inputs.recurrent import NORMED, RecurrentMixer
from planner.numeric import Num, ceil

SCANS: Final[Mapping[str, ScanKernel]] = {
    "hopper": ScanKernel(0.51, 0.85, 1.057e-6, 23.0e-6, 2.95, 3.46e-6, 41.0e-6),
    "blackwell": ScanKernel(0.143, 0.85, 1.470e-6, 25.6e-6, 3.62, 4.21e-6, 50.7e-6),
}
"""Scans of flash-linear-attention by architecture, from the gated delta rule with heads of 128.

Chunks, launches, and time for a token and head: least squares over 25 forward and backward runs on H200 and
21 on GB200, within 6% (Qwen, FlashQLA c18a4860, ``benchmark/benchmark_results_*.txt``, MIT). On Hopper
arithmetic and memory are told apart by the same kernel on H20 (Moonshot AI, FlashKDA 1ce47ea3,
``BENCHMARK_H20.md``, MIT); Blackwell is taken to move as many bytes.
"""

BORROWED: Final = "hopper"
"""Whose scans stand for those of other architectures."""

CONVOLUTION: Final = traffic.Traffic(4.0, 8.0, "copy")
"""Short convolution and its activation, one kernel: it reads and writes an element; backward it reads input
and gradient and writes one (Dao-AILab, causal-conv1d). [byte]
"""

AROUND: Final = traffic.Traffic(2.0, 4.0, "residual")
"""Kernels around a scan, for an element read or written once; backward twice as many. [byte]"""

STATE_BYTES: Final = 2.0
"""Bytes of an element that is kept. [byte]"""

GATED_NORM: Final = traffic.NORM[False].beside(traffic.Traffic(30.0, 52.0))._replace(kernel="residual")
"""A norm with a gate that is a chain of kernels in fp32. [byte]

After the norm the gate is cast, 6, its silu taken, 8, both are multiplied, 10, and the result cast back, 6;
backward two casts and a product each, 6 + 12, 6 + 10, then silu's gradient and its cast, 12 + 6 (Hugging
Face, Transformers v5.23.0, ``models/qwen3_5``, ``Qwen3_5RMSNormGated``).
"""

GATED_NORM_KEPT: Final = 16.0 - 8.0
"""Bytes of an element that this chain keeps besides. [byte]

Its input, the gate and that gate's silu in fp32, the element normed and weighted in 16 bit; one kernel has
the scan's result, that normed, the gate, and the gate in the product's result, which nothing holds here.
"""


def recurrent_operators(pricer: Pricer, mixer: RecurrentMixer) -> list[Operator]:
    """Price a mixer that passes a state along: all of it over whole sequences, with a part of the heads.

    What has no product to be fused into reads and writes memory. Nothing of it is named by recompute but the
    whole layer: there is no attention to compute again.
    """
    rows, tp = pricer.tokens, pricer.plan.tp
    into, *between, out = _linear_layers(pricer, mixer)
    operators = [into, *between]
    if mixer.conv_width:
        convolved = rows * mixer.conv_width / tp
        operators.append(pricer.elementwise("short_conv", "linear_attn", convolved, CONVOLUTION))
    shared, chained = pricer.case.traits.kernels.grouped_scan, not norm_is_fused(pricer.case)
    spared = 2.0 * shared * mixer.copied + NORMED * chained * mixer.normed
    around = rows * (mixer.around - spared) / tp
    weights = mixer.divided_params / tp + mixer.whole_params
    gates = pricer.elementwise("scan_gates", "linear_attn", around, AROUND, params=weights)
    if not mixer.has_scan:
        return [*operators, gates.with_values(saved=kept_bytes(pricer, mixer)), out]
    scan = selective_scan(pricer, mixer) if isinstance(mixer, Mamba1) else scan_operator(pricer, mixer)
    if chained and mixer.normed:
        normed = pricer.elementwise("gated_norm", "linear_attn", rows * mixer.normed / tp, GATED_NORM)
        return [*operators, gates, scan, normed, out]
    return [*operators, gates, scan, out]


def kept_bytes(pricer: Pricer, mixer: RecurrentMixer) -> Num:
    """Bytes that a mixer keeps for backward beside the results of its products. [byte]"""
    elements = mixer.kept - pricer.case.traits.kernels.grouped_scan * mixer.copied
    chain = 0.0 if norm_is_fused(pricer.case) else GATED_NORM_KEPT * mixer.normed
    return pricer.tokens * (STATE_BYTES * elements + chain) / pricer.plan.tp


def _linear_layers(pricer: Pricer, mixer: RecurrentMixer) -> list[Operator]:
    """Price the linear layers; the results of all but the last one are kept, or made again in backward."""
    rows, tp = pricer.tokens, pricer.plan.tp
    found: list[Operator] = []
    *first, last = mixer.products(pricer.case.model.hidden)
    for one in first:
        outputs = one.outputs / tp if one.split == "columns" else float(one.outputs)
        inputs = one.inputs / tp if one.split == "rows" else float(one.inputs)
        kept = one.kept * STATE_BYTES * rows * outputs
        made = pricer.linear(one.name, "mixer", rows, inputs, outputs, saved=kept, bias=one.bias)
        found.append(made if one.kept else made.with_values(reruns=1.0))
    inner, width = last.inputs / tp, float(last.outputs)
    return [*found, pricer.linear(last.name, "mixer", rows, inner, width, bias=last.bias)]


def scan_operator(pricer: Pricer, mixer: RecurrentMixer) -> Operator:
    """Price a chunked scan; no training run has measured one, so all of its time counts as extrapolated."""
    case, plan = pricer.case, pricer.plan
    kernel = scan_kernel(case.pool.accelerator.arch)
    states = case.context.states
    heads = ceil(mixer.state_heads / plan.tp)
    seq: Num = float(case.workload.seq_len)
    # Either some heads of the whole sequence, or all of a part of it.
    if states is None:
        heads = heads / plan.cp
    else:
        seq = seq / plan.cp
    rows = plan.micro_batch * heads
    peak = case.pool.accelerator.peak.get("bf16") or case.pool.accelerator.peak["fp16"]
    nbytes = kernel.traffic_share * STATE_BYTES * mixer.scan_elements
    each = token_seconds(
        mixer.scan_flops / kernel.compute_share, nbytes, peak, case.pool.accelerator.memory_bandwidth
    )
    each = each * mixer.slowdown / case.derate
    forward = scan_seconds(rows, seq, float(mixer.chunk), each, kernel.step, kernel.launch)
    backward = scan_seconds(
        rows, seq, float(mixer.chunk), kernel.backward * each, kernel.backward_step, kernel.backward_launch
    )
    return _scan(pricer, mixer, forward, backward).with_values(flops=rows * seq * mixer.scan_flops)


EXPONENTIAL: Final = 16.0
"""FP32 operations in the time of an exponential: 128 fused multiply-adds a clock against 16. [-]

References
----------
.. [1] NVIDIA, "CUDA C++ Programming Guide," table of arithmetic throughput, compute capability 8.0 and 9.0.
"""

SCALAR_SHARE: Final = 1.0 / 16.0
"""FP32 peak over the dense 16-bit one where an accelerator says none: that of an A100. [-]"""

BACKWARD_TRAFFIC: Final = 9.0 / 5.0
"""Elements that the backward scan moves over those of forward: input, step, gate, result and its gradient
read; gradients of input, step and gate, and the gated result written. [-]

References
----------
.. [1] state-spaces/mamba 1200d6e9, ``csrc/selective_scan/selective_scan_bwd_kernel.cuh``.
"""

BACKWARD_SCAN: Final = 3.0
"""Arithmetic of the backward scan over that of forward: the states again, a scan back, their products. [-]"""


def selective_scan(pricer: Pricer, mixer: Mamba1) -> Operator:
    """Price the scan of Mamba-1: no products, an exponential for each number of each token's state.

    No public table times it: all of it is a roofline of memory, exponentials and other arithmetic, and counts
    as extrapolated. It reaches over the whole sequence with some of the channels, as `scan_operator`.
    """
    case, plan = pricer.case, pricer.plan
    known = case.pool.accelerator.peak
    peak = float(known.get("fp32") or SCALAR_SHARE * (known.get("bf16") or known["fp16"]))
    rows = pricer.tokens * ceil(mixer.inner / plan.tp)
    launch = SCANS[BORROWED].launch
    read = STATE_BYTES * mixer.scan_elements / case.kernels.memory_bandwidth
    raised = EXPONENTIAL * mixer.state / peak
    worked = mixer.scan_flops / peak
    forward = launch + rows * max(read, raised, worked) / case.derate
    back = max(BACKWARD_TRAFFIC * read, raised, BACKWARD_SCAN * worked)
    backward = launch + rows * back / case.derate
    return _scan(pricer, mixer, forward, backward)


def _scan(pricer: Pricer, mixer: RecurrentMixer, forward: Num, backward: Num) -> Operator:
    """Return a scan by its times, all of which are outside the range of kernel tables."""
    arrived, waiting = held_states(pricer, mixer)
    return Operator(
        "scan",
        "linear_attn",
        forward=forward,
        backward=backward,
        saved=kept_bytes(pricer, mixer) + arrived,
        result=waiting,
        outside_forward=forward,
        outside_backward=backward,
    )


def scan_kernel(arch: str) -> ScanKernel:
    """Return what scans reach on an architecture, or on the one that lends its own."""
    return SCANS.get(arch, SCANS[BORROWED])
