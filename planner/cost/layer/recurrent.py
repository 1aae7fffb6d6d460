"""The operators of mixers that pass a state along the sequence: products, convolution, scan, gated norm."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from planner.cost.layer.operators import Operator, Pricer
from planner.cost.layer.state_passing import held_states
from planner.formulas import elementwise as traffic
from planner.formulas.recurrence import ScanKernel, scan_seconds, token_seconds
from planner.inputs.recurrent import RecurrentMixer
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
    around, weights = rows * mixer.around / tp, mixer.divided_params / tp + mixer.whole_params
    operators.append(pricer.elementwise("scan_gates", "linear_attn", around, AROUND, params=weights))
    return [*operators, scan_operator(pricer, mixer), out]


def _linear_layers(pricer: Pricer, mixer: RecurrentMixer) -> list[Operator]:
    """Price the linear layers; the results of all but the last one are kept."""
    rows, tp = pricer.tokens, pricer.plan.tp
    found: list[Operator] = []
    *first, last = mixer.products(pricer.case.model.hidden)
    for one in first:
        outputs = one.outputs / tp if one.split == "columns" else float(one.outputs)
        kept = STATE_BYTES * rows * outputs
        found.append(
            pricer.linear(one.name, "mixer", rows, float(one.inputs), outputs, saved=kept, bias=one.bias)
        )
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
    kept = STATE_BYTES * pricer.tokens * mixer.kept / plan.tp
    arrived, waiting = held_states(pricer, mixer)
    return Operator(
        "scan",
        "linear_attn",
        forward=forward,
        backward=backward,
        saved=kept + arrived,
        result=waiting,
        flops=rows * seq * mixer.scan_flops,
        outside_forward=forward,
        outside_backward=backward,
    )


def scan_kernel(arch: str) -> ScanKernel:
    """Return what scans reach on an architecture, or on the one that lends its own."""
    return SCANS.get(arch, SCANS[BORROWED])
