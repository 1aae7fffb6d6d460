"""What a training run is told beside its plan: how long, at which rate, how often it saves and logs."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from planner.dataclasses import dataclass
from planner.inputs.model import ModelSpec
from planner.runtimes.family import Job
from planner.runtimes.offered import train_steps

SMOKE_STEPS: Final = 20
"""Steps of a smoke run: the first ones compile and allocate, the last ten are alike."""

RATES: Final = ((13e9, 3e-4), (100e9, 1.5e-4), (float("inf"), 8e-5))
"""Active parameters up to which a highest learning rate was published.

References
----------
.. [1] Touvron et al., Llama 2, arXiv:2307.09288, table 1: 3e-4 for 7B and 13B, 1.5e-4 for 34B and 70B.
.. [2] Llama Team, The Llama 3 Herd of Models, arXiv:2407.21783, table 3: 3e-4, 1.5e-4 and 8e-5.
"""

ADAPTER_RATES: Final = ((13e9, 2e-4), (float("inf"), 1e-4))
"""The same for adapters: Dettmers et al., QLoRA, arXiv:2305.14314, table 9."""


@dataclass(frozen=True)
class TrainingRun:
    """The numbers of a real run; `SOURCES` says where each is from, `defaults` which the user may set."""

    train_steps: int
    warmup_steps: int
    decay_steps: int
    """Optimizer steps, those in which the rate rises, and the one at which it is lowest."""
    learning_rate: float
    min_learning_rate: float
    """At the end of the warm-up, and at the end."""
    eval_steps: int
    """Batches of an evaluation."""
    decay_style: str = "cosine"
    """How it falls."""
    weight_decay: float = 0.1
    clip: float = 1.0
    beta1: float = 0.9
    beta2: float = 0.95
    """Of AdamW; ``clip`` is the largest norm of the gradient."""
    seed: int = 1234
    """Of weights and data."""
    log_interval: int = 1
    eval_interval: int = 1000
    save_interval: int = 1000
    """Steps from one log line, evaluation and checkpoint to the next."""
    timeout_minutes: int = 10
    """After which a collective counts as stuck."""

    def defaults(self, *names: str) -> dict[str, str]:
        """Return the user's variables of these names with their defaults, as `Command.defaults` takes them.

        Where the user may set the steps, the rate falls until the last of them.

        Examples
        --------
        >>> TrainingRun(100, 10, 100, 3e-4, 3e-5, 0).defaults("DECAY_STEPS", "SEED", "TRAIN_STEPS")
        {'TRAIN_STEPS': '100', 'DECAY_STEPS': '${TRAIN_STEPS}', 'SEED': '1234'}
        """
        first = ("TRAIN_STEPS",) if "TRAIN_STEPS" in names else ()
        found = {name: f"{getattr(self, FIELDS[name]):.15g}" for name in dict.fromkeys((*first, *names))}
        follows = {"DECAY_STEPS": "${TRAIN_STEPS}"} if {"TRAIN_STEPS", "DECAY_STEPS"} <= found.keys() else {}
        return found | follows


FIELDS: Final = MappingProxyType(
    {
        name: name.lower()
        for name in (
            "TRAIN_STEPS", "WARMUP_STEPS", "DECAY_STEPS", "LEARNING_RATE", "MIN_LEARNING_RATE", "SEED",
            "LOG_INTERVAL", "EVAL_INTERVAL", "EVAL_STEPS", "SAVE_INTERVAL", "TIMEOUT_MINUTES",
        )
    }
)  # fmt: skip
"""The user's variable to the field that is its default."""

SOURCES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "train_steps": "the training tokens over those of a step; without tokens a trial",
        "warmup_steps": "Llama 2, arXiv:2307.09288, section 2.2: 2,000; at most a tenth of a short run",
        "decay_steps": "to the end of training, as Llama 2 and 3 do",
        "decay_style": "Llama 2, section 2.2: cosine",
        "learning_rate": "Llama 3, arXiv:2407.21783, table 3, by active parameters; adapters: QLoRA, table 9",
        "min_learning_rate": "Llama 2, section 2.2: a tenth of the highest",
        "weight_decay": "Llama 2, section 2.2",
        "clip": "Llama 2, section 2.2",
        "beta1": "Llama 2, section 2.2",
        "beta2": "Llama 2, section 2.2",
        "seed": "Megatron-LM's default",
        "log_interval": "every step, so that its time can be held against the estimate",
        "eval_interval": "Megatron-LM's default",
        "eval_steps": "ten forward passes each thousand steps take a third of a percent; a trial has none",
        "save_interval": "`planner goodput` has the interval that loses least on a cluster",
        "timeout_minutes": "PyTorch's default for NCCL, torch/distributed/constants.py",
    }
)
"""Why each number of `TrainingRun` is what it is."""


def run_of(job: Job) -> TrainingRun:
    """Return what a run of the job is told where the user says nothing.

    Examples
    --------
    >>> from planner.inputs.load_hardware import load_hardware
    >>> from planner.inputs.load import load_model
    >>> from planner.inputs.workload import Workload
    >>> work = Workload(seq_len=8192, global_batch=512, tokens=1e12)
    >>> run = run_of(Job(load_model("llama3-70b"), load_hardware("dgx-h100"), 512, work))
    >>> run.train_steps, run.warmup_steps, run.learning_rate, run.min_learning_rate
    (238419, 2000, 0.00015, 1.5e-05)
    """
    steps, rate = train_steps(job.workload), _rate(job.model, job.workload.method)
    return TrainingRun(
        train_steps=steps,
        warmup_steps=min(2000, steps // 10),
        decay_steps=steps,
        learning_rate=rate,
        min_learning_rate=float(f"{rate / 10:.6g}"),
        eval_steps=10 if job.workload.tokens else 0,
    )


def _rate(model: ModelSpec, method: str) -> float:
    table = RATES if method == "full" else ADAPTER_RATES
    return next(rate for most, rate in table if model.active_params <= most)
