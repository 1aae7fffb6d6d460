"""What a source counted when it printed TFLOP/s or MFU, so that seconds can be had back from them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from planner.calibrate.eras.record import SINCE_HOPPER
from planner.calibrate.runs.columns import RunFigures
from planner.calibrate.runs.table import Run
from planner.cost.flops import step_flops
from planner.dataclasses import dataclass
from planner.inputs.hardware import Accelerator
from planner.inputs.model import ModelSpec
from planner.numeric import Num
from planner.plan import Plan
from planner.units import TFLOP

CONTRADICTION: Final = 0.1
"""Share by which two printed speeds of one run may differ before they contradict each other. [-]"""


def gpt_token_flops(layers: Num, hidden: Num, vocab: Num, seq_len: Num, passes: Num) -> Num:
    r"""FLOPs for one token of a plain transformer, attention over the full square. [FLOP]

    .. math:: F = 24\,k\,L h^2 \left(1 + \frac{s}{6h}\right) + 6 h V

    Parameters
    ----------
    layers : Num
        Layers :math:`L`. [-]
    hidden, vocab : Num
        Width :math:`h` and vocabulary :math:`V`. [element]
    seq_len : Num
        Tokens of a sequence, :math:`s`. [-]
    passes : Num
        Forward-equivalents :math:`k` of a layer: 3, or 4 where a full recompute is counted. [-]

    References
    ----------
    .. [1] D. Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters,"
       arXiv:2104.04473, 2021, eq. (3): k = 4 gives 96 B s l h^2 (1 + s/6h + V/16lh).

    Examples
    --------
    One step of GPT-3 with 1,536 sequences of 2,048 tokens, in PFLOP:

    >>> round(gpt_token_flops(96, 12288, 51200, 2048, 4) * 1536 * 2048 / 1e15)
    4511
    """
    return 24 * passes * layers * hidden**2 * (1 + seq_len / (6 * hidden)) + 6 * hidden * vocab


def palm_token_flops(params: Num, layers: Num, width: Num, seq_len: Num) -> Num:
    r"""FLOPs for one token by the count of the PaLM paper. [FLOP]

    .. math:: F = 6 N + 12 L H Q s

    Parameters
    ----------
    params : Num
        Parameters :math:`N`. [element]
    layers, width : Num
        Layers and attention width :math:`HQ`, heads times head size. [-], [element]
    seq_len : Num
        Tokens of a sequence. [-]

    References
    ----------
    .. [1] A. Chowdhery et al., "PaLM: Scaling Language Modeling with Pathways,"
       arXiv:2204.02311, 2022, app. B.
    """
    return 6 * params + 12 * layers * width * seq_len


def product_params(model: ModelSpec) -> int:
    """Parameters that a token multiplies: all active ones but the tables it looks up. [element]"""
    looked_up = model.embedding_params - (model.vocab * model.hidden if model.tied_embeddings else 0)
    return model.active_params - looked_up


def _hardware(run: Run, model: ModelSpec, plan: Plan) -> Num:
    passes = 4 if plan.recompute.startswith("full") else 3
    return gpt_token_flops(model.num_layers, model.hidden, model.vocab, run.seq_len or 0, passes)


def _useful(run: Run, model: ModelSpec, plan: Plan) -> Num:
    return gpt_token_flops(model.num_layers, model.hidden, model.vocab, run.seq_len or 0, 3)


def _by_size(run: Run, model: ModelSpec, plan: Plan) -> Num:
    return 8e9 * run.params_b if run.params_b else 8.0 * model.params


def _palm(run: Run, model: ModelSpec, plan: Plan) -> Num:
    mixer = next(iter(model.attentions))
    return palm_token_flops(model.params, model.num_layers, mixer.heads * mixer.qk_head_dim, run.seq_len or 0)


def _six(run: Run, model: ModelSpec, plan: Plan) -> Num:
    dense = run.params_b is not None and not run.experts
    return 6e9 * (run.params_b or 0.0) if dense else 6.0 * model.active_params


def _causal(run: Run, model: ModelSpec, plan: Plan) -> Num:
    return step_flops(model, run.seq_len or 0, 1.0, frozen=run.method not in ("", "full"))


def _megatron(run: Run, model: ModelSpec, plan: Plan) -> Num:
    """By Megatron's own formula: causal and without recompute in the Megatron-core of Hopper and later."""
    return (_causal if re.match(SINCE_HOPPER, run.gpu) else _hardware)(run, model, plan)


_Count = Callable[[Run, ModelSpec, Plan], Num]
CONVENTIONS: Final[tuple[tuple[re.Pattern[str], _Count], ...]] = (
    (re.compile(r"8\*?p\*?tok"), _by_size),
    (re.compile(r"6n ?\+ ?12l|palm|lhqt"), _palm),
    (re.compile(r"(?<![\w.])6 ?\*? ?[np]d?(?![\w+ (-]*12)(?!\w)|chinchilla"), _six),
    (re.compile(r"megatron-bridge|causal"), _causal),
    (re.compile(r"sequence-parallel paper"), _useful),
    (re.compile(r"hardware|counts recompute|96 ?\*? ?b"), _hardware),
    (re.compile(r"megatron.?(lm.?)?(formula|flops)"), _megatron),
)
"""Words of ``flops_convention`` and the count that each means; other words mean an unknown count."""


@dataclass(frozen=True)
class Measured:
    """A run's seconds per step, and the column they come from; None where no column gives them."""

    seconds: float | None
    basis: str


def peak_rate(accelerator: Accelerator, precision: str) -> float:
    """Return the dense peak of a precision, or of the next wider one where the chip lacks it. [FLOP/s]"""
    wider = {
        "nvfp4": "mxfp8",
        "mxfp8": "fp8",
        "fp8-block": "fp8",
        "fp8-delayed": "fp8",
        "fp8": "bf16",
        "bf16": "fp16",
        "fp16": "bf16",
    }
    name = precision
    for _ in range(len(wider)):
        if name in accelerator.peak:
            return float(accelerator.peak[name])
        name = wider.get(name, "bf16")
    return float(max(accelerator.peak.values()))


def measured_time(run: Run, model: ModelSpec, plan: Plan, accelerator: Accelerator) -> Measured:
    """Return the seconds per step that a run's columns give, the most direct column first."""
    tokens = (run.seq_len or 0) * (run.global_batch or 0) / (run.num_gpus or 1)
    if run.step_time_s:
        return Measured(run.step_time_s, "step_time_s")
    if run.tokens_per_s_per_gpu:
        return Measured(tokens / run.tokens_per_s_per_gpu, "tokens_per_s_per_gpu")
    words = run.flops_convention.lower()
    count = next((count for pattern, count in CONVENTIONS if pattern.search(words)), None)
    rate, basis = printed_rate(run, accelerator)
    if count is None or rate is None:
        return Measured(None, "")
    return Measured(float(tokens * count(run, model, plan) / rate), basis)


def printed_rate(run: RunFigures, accelerator: Accelerator) -> tuple[float | None, str]:
    """Return the FLOP/s that a run prints for each accelerator, directly or as a share of the 16-bit peak."""
    if run.tflops_per_gpu:
        return run.tflops_per_gpu * TFLOP, "tflops_per_gpu"
    if run.mfu_pct:
        return run.mfu_pct / 100 * peak_rate(accelerator, "bf16"), "mfu_pct"
    return None, ""


def disagreement(run: Run) -> str:
    """Return how step time and tokens per second contradict each other, empty where they agree."""
    if not (
        run.step_time_s and run.tokens_per_s_per_gpu and run.seq_len and run.global_batch and run.num_gpus
    ):
        return ""
    other = run.seq_len * run.global_batch / run.num_gpus / run.tokens_per_s_per_gpu
    if abs(other / run.step_time_s - 1) <= CONTRADICTION:
        return ""
    rate = f"tokens_per_s_per_gpu {run.tokens_per_s_per_gpu:g}"
    return f"step_time_s {run.step_time_s:g} but {rate} means {other:.4g} s"


def peak_share(model: ModelSpec, run: Run, seconds: float, accelerator: Accelerator, trained: float) -> float:
    """Return the share of the dense peak that the products of weights alone need in ``seconds``. [-]

    ``trained`` is the share of the 6 FLOPs for each parameter and token that the method needs at least.
    """
    tokens = (run.seq_len or 0) * (run.global_batch or 0) / (run.num_gpus or 1)
    return 6 * trained * product_params(model) * tokens / seconds / peak_rate(accelerator, run.precision)
