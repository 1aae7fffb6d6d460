"""Arguments of ``pretrain_gpt.py`` that say how long, at which rate and on what a run trains.

Read in Megatron-LM d98e8a64 (core 0.20): training/config/training_config.py and common_config.py, whose
fields are flags; training/training.py `get_train_valid_test_num_samples`, which divides by
``--eval-interval`` even where nothing is evaluated; core/tokenizers/text/libraries/null_tokenizer.py, whose
end of a document is the last token of the vocabulary, and before 0.18 one more.
"""

from __future__ import annotations

from typing import Final

from planner.inputs.workload import Workload
from planner.plan import Plan
from planner.runtimes.family import Job, StepLine
from planner.runtimes.training_run import SMOKE_STEPS, TrainingRun

NEEDS: Final = ("DATA_PATH", "TOKENIZER_PATH", "OUTPUT_DIR")

DEFAULTS: Final = (
    "LEARNING_RATE", "MIN_LEARNING_RATE", "WARMUP_STEPS", "DECAY_STEPS", "TRAIN_STEPS", "SEED",
    "LOG_INTERVAL", "EVAL_INTERVAL", "EVAL_STEPS", "SAVE_INTERVAL", "TIMEOUT_MINUTES",
)  # fmt: skip

NULL_IS_WHOLE_SINCE: Final = "0.18"
"""Release since which the null tokenizer's end of a document is one of the vocabulary's tokens."""

STEP_LINE: Final = StepLine(r"elapsed time per iteration \(ms\): *([0-9.]+)", divisor=1000)

SHARED: Final = (
    *("--lr", "${LEARNING_RATE}", "--min-lr", "${MIN_LEARNING_RATE}"),
    *("--lr-warmup-iters", "${WARMUP_STEPS}", "--lr-decay-iters", "${DECAY_STEPS}"),
    *("--seed", "${SEED}", "--distributed-timeout-minutes", "${TIMEOUT_MINUTES}"),
    *("--split", "99,1,0", "--eval-interval", "${EVAL_INTERVAL}"),
)

PRODUCTION: Final = (
    *("--train-iters", "${TRAIN_STEPS}", "--eval-iters", "${EVAL_STEPS}"),
    *("--log-interval", "${LOG_INTERVAL}"),
    *("--tokenizer-type", "HuggingFaceTokenizer", "--tokenizer-model", "${TOKENIZER_PATH}"),
    *("--data-path", "${DATA_PATH[@]}", "--data-cache-path", "${DATA_CACHE}"),
    *("--save", "${OUTPUT_DIR}/checkpoints", "--load", "${OUTPUT_DIR}/checkpoints"),
    *("--save-interval", "${SAVE_INTERVAL}", "--exit-signal-handler"),
)
"""Arguments of a real run alone; a job that is told to end saves first, and finds its checkpoint again."""


def loop_flags(plan: Plan, work: Workload, run: TrainingRun) -> list[str]:
    """Return the flags of batches, schedule and logs that a real run and a smoke run share."""
    return [
        *("--micro-batch-size", f"{plan.micro_batch:.0f}"),
        *("--global-batch-size", str(work.global_batch)),
        *("--lr-decay-style", run.decay_style, *SHARED),
        *("--cross-entropy-loss-fusion", "--cross-entropy-fusion-impl", "native"),
        *("--manual-gc", "--manual-gc-interval", "100", "--no-create-attention-mask-in-dataloader"),
        "--log-throughput",
    ]


def smoke_flags(job: Job, version: str) -> tuple[str, ...]:
    """Return what a smoke run has in place of data, tokenizer, checkpoints and steps."""
    beyond = version < NULL_IS_WHOLE_SINCE
    vocabulary = ("--vocab-size", str(job.model.vocab - 1)) if beyond else ()
    return (
        *("--train-iters", str(SMOKE_STEPS), "--eval-iters", "0", "--log-interval", "1"),
        *("--mock-data", "--tokenizer-type", "NullTokenizer", *vocabulary),
    )


def defaults(run: TrainingRun) -> dict[str, str]:
    """Return the variables that a user may leave unset, with what they are then."""
    return {**run.defaults(*DEFAULTS), "DATA_CACHE": "${OUTPUT_DIR}/cache"}


def where_set(plan: Plan, job: Job) -> dict[str, tuple[str, ...]]:
    """Return the arguments that are there where the user sets a variable."""
    name = f"{job.model.name}-{plan.slug}"
    return {
        "MINUTES": ("--exit-duration-in-mins", "${MINUTES}"),
        "TENSORBOARD_DIR": ("--tensorboard-dir", "${TENSORBOARD_DIR}"),
        "WANDB_PROJECT": (
            *("--wandb-project", "${WANDB_PROJECT}", "--wandb-exp-name", name),
            *("--wandb-save-dir", "${OUTPUT_DIR}/wandb"),
        ),
    }
