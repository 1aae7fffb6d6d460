"""Files for torchtitan since its configs became Python: a module with the model, and the command line."""

from __future__ import annotations

import math

from planner.plan import Plan
from planner.runtimes.family import GROWING_SEGMENTS, Command, Job
from planner.runtimes.hub.script_masks import said
from planner.runtimes.torchtitan.choice import STEP_LINE, WHERE_SET, TitanChoice
from planner.runtimes.torchtitan.model_data import family, literal, model_data, part_names
from planner.runtimes.torchtitan.module_text import (
    BODY,
    FAMILIES,
    FLOAT8_EXPERTS,
    FLOAT8_MODULE,
    HEAD,
    LOW_BITS_MODULE,
    SEEING,
    TAIL,
)
from planner.runtimes.torchtitan.rules import training_dtype
from planner.runtimes.torchtitan.schedules import SCHEDULES
from planner.runtimes.torchtitan.table import degree_keys, shard_keys
from planner.runtimes.torchtitan.vision import sees, vision_data, with_pairs
from planner.runtimes.training_run import SMOKE_STEPS, TrainingRun, run_of

MODULE = "titan_plan"

LOW_BITS = {"mxfp8": "MXFP8LinearConverter", "nvfp4": "NVFP4LinearConverter"}
"""Converters of products whose blocks have scales of their own, by precision."""

RECOMPUTES = {"none": "none", "selective": "selective", "full": "full"}


def module_text(plan: Plan, job: Job, choice: TitanChoice) -> str:
    """Return the Python module that ``--module`` names; fp8 is a list of converters of the model."""
    data = literal("MODEL", model_data(job.model, job.workload.seq_len) | vision_data(job))
    parts = literal("PARTS", part_names(plan, job.model, "lm_head"))
    seeing = sees(job.model)
    imports, layers = SEEING if seeing else FAMILIES[family(job.model)]
    chunks = f"\nLOSS_CHUNKS = {choice.loss_chunks}\n"
    text = HEAD + imports + "\n" + data + parts + chunks + run_data(run_of(job)) + BODY + layers + TAIL
    text = with_pairs(text) if seeing else text
    if (kind := LOW_BITS.get(job.workload.precision)) is not None:
        told = {"precision": job.workload.precision, "kind": kind, "compiled": choice.compiled}
        return _converted(text, LOW_BITS_MODULE.format(**told), kind)
    if job.workload.precision != "fp8":
        return text
    low = FLOAT8_MODULE + (FLOAT8_EXPERTS if job.model.expert_kinds else "") + "]\n"
    names = "Float8GroupedExpertsConverter, Float8LinearConverter"
    return _converted(text, low.format(compiled=choice.compiled), names)


def run_data(run: TrainingRun) -> str:
    """Return the numbers of a run that the command line cannot say; a user's variables go before them."""
    values = {
        "LEARNING_RATE": run.learning_rate,
        "MIN_LEARNING_RATE": run.min_learning_rate,
        "TIMEOUT_MINUTES": run.timeout_minutes,
        "SEED": run.seed,
        "EVAL_STEPS": 0,
        "EVAL_INTERVAL": run.eval_interval,
    }
    optimizer = {"betas": (run.beta1, run.beta2), "weight_decay": run.weight_decay}
    return literal("RUN", values) + literal("OPTIMIZER", optimizer)


def _converted(text: str, converters: str, names: str) -> str:
    """Return a module whose model passes through converters of these names before it is built."""
    imported = f"from torchtitan.components.quantization import {names}\n"
    turned = "    for converter in CONVERTERS:\n        config = converter.build().convert(config)\n"
    before = {
        "from torchtitan.config import": imported,
        "\n\ndef model_spec():": f"\n\n{converters}",
        "    sparse = any(": turned,
    }
    for place, more in before.items():
        text = said(text, place, more + place)
    return text


def resharding(plan: Plan) -> str:
    """Word for what is let go after forward: without a pipeline all but the last norm and the head.

    References
    ----------
    .. [1] torchtitan 01e1814, ``torchtitan/distributed/fsdp.py``: ``default`` keeps these two gathered, and
       in a pipeline everything.
    """
    if plan.zero == 2:
        return "never"
    return "always" if plan.pp > 1 else "default"


def flags(plan: Plan, job: Job, choice: TitanChoice) -> tuple[str, ...]:
    """Return the command line after ``--module`` and ``--config``, every degree said."""
    work = job.workload
    mesh = shard_keys(plan) | degree_keys(plan, "tp", "cp", "pp", "ep")
    values = {
        **{f"parallelism.{key}": degree for key, degree in mesh.items()},
        "parallelism.num_pp_microbatches": plan.num_microbatches if plan.pp > 1 else 1,
        "training.num_tokens_per_microbatch_per_dp_rank": plan.micro_batch * work.seq_len,
        "training.num_tokens_per_train_step": work.slots_per_step,
        "training.max_context_length": work.seq_len,
    }
    words = {
        "parallelism.fsdp_reshard_after_forward": resharding(plan),
        "training.dtype": training_dtype(work),
        "training.mixed_precision_param": "bfloat16",
        "training.mixed_precision_reduce": "float32",
        "training.max_norm": f"{run_of(job).clip:g}",
    }
    schedule = SCHEDULES[plan.schedule] if plan.pp > 1 else None
    if schedule is not None:
        words["parallelism.pipeline_parallel_schedule"] = schedule.name
    switches = [
        "training.disable_cuda_graphs",
        *(("training.enable_cpu_offload",) if plan.offload == "weights" else ()),
        f"parallelism.{'' if plan.sequence_parallel else 'no-'}enable_sequence_parallel",
        f"compile.{'' if choice.compiled else 'no-'}enable",
        *(("compile.enable_async_tensor_parallel",) if choice.async_tp else ()),
    ]
    pairs = {name: str(math.floor(value)) for name, value in values.items()} | words
    text = [part for name, value in pairs.items() for part in (f"--{name}", value)]
    return (*text, *(f"--{name}" for name in switches))


PRODUCTION = (
    "--config", "train",
    "--training.steps", "${TRAIN_STEPS}",
    "--lr_scheduler.warmup_steps", "${WARMUP_STEPS}",
    "--lr_scheduler.total_steps", "${DECAY_STEPS}",
    "--metrics.log_freq", "${LOG_INTERVAL}",
    "--debug.seed", "${SEED}",
    "--checkpoint.enable",
    "--checkpoint.interval", "${SAVE_INTERVAL}",
    "--hf_assets_path", "${TOKENIZER_PATH}",
    "--dump_folder", "${OUTPUT_DIR}",
)  # fmt: skip
"""Arguments of a real run; it goes on from the last checkpoint in the folder, if there is one."""

SMOKE = (
    "--config", "smoke",
    "--training.steps", str(SMOKE_STEPS),
    "--metrics.log_freq", "1",
    "--checkpoint.no-enable",
    "--debug.no-enable_structured_logging",
)  # fmt: skip

VARIABLES = (
    "TRAIN_STEPS", "LEARNING_RATE", "MIN_LEARNING_RATE", "WARMUP_STEPS", "DECAY_STEPS", "SEED",
    "LOG_INTERVAL", "SAVE_INTERVAL", "TIMEOUT_MINUTES", "EVAL_INTERVAL",
)  # fmt: skip


def current_command(plan: Plan, job: Job, choice: TitanChoice) -> Command:
    """Return what starts the plan on the newest torchtitan."""
    return Command(
        program=("torchtitan.train", "--module", MODULE, *flags(plan, job, choice)),
        environment=GROWING_SEGMENTS,
        production=PRODUCTION,
        smoke=SMOKE,
        closing=(f"activation-checkpoint:{RECOMPUTES[plan.recompute]}",),
        production_needs=("DATA_PATH", "TOKENIZER_PATH", "OUTPUT_DIR"),
        defaults=run_of(job).defaults(*VARIABLES) | {"EVAL_STEPS": "0"},
        where_set=WHERE_SET | {"DATA_CACHE": ()},
        step_line=STEP_LINE,
        module=True,
        files={f"{MODULE}.py": module_text(plan, job, choice)},
    )
