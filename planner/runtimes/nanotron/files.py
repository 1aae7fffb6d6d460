"""The YAML of one plan for nanotron."""

from __future__ import annotations

from typing import Any

import yaml

from planner.inputs.model import Attention, DenseFfn, Experts, ModelSpec
from planner.inputs.numerics import Router
from planner.plan import Plan
from planner.runtimes.family import GROWING_SEGMENTS, Command, Job, StepLine
from planner.runtimes.nanotron.start import START
from planner.runtimes.nanotron.table import BARE, ENGINES, MODES, bare_period, degree_keys
from planner.runtimes.numerics import unknown_numerics
from planner.runtimes.offered import attention_of, trial_note
from planner.runtimes.settings import NO_CHANGES, Changes
from planner.runtimes.training_run import SMOKE_STEPS, TrainingRun, run_of


def _unbalanced(model: ModelSpec) -> tuple[str, ...]:
    """Return for the run card that nothing balances experts."""
    if not model.expert_kinds:
        return ()
    router = model.numerics.router or Router()
    kind = " over each sequence" if router.per_sequence else ""
    own = f", the model's of {router.aux_loss:g}{kind} included" if router.aux_loss else ""
    return (
        f"nanotron's Qwen2 model adds no balancing loss to its experts{own}, and the price has balanced "
        "experts.",
    )


def model_config(model: ModelSpec, seq_len: int) -> dict[str, Any]:
    """Return ``model.model_config``: a dense or sparse Qwen2 model, which needs its own marker first."""
    blocks = [model.blocks[name] for name in model.layers]
    mixer = attention_of(blocks[0])
    dense = next((block.ffn for block in blocks if isinstance(block.ffn, DenseFfn)), None)
    experts = next((block.ffn for block in blocks if isinstance(block.ffn, Experts)), None)
    width = dense or experts
    config: dict[str, Any] = {
        "is_qwen2_config": True,
        "hidden_size": model.hidden,
        "intermediate_size": width.inner if width else 0,
        "num_hidden_layers": model.num_layers,
        "num_attention_heads": mixer.heads,
        "num_key_value_heads": mixer.kv_heads,
        "attention_bias": isinstance(mixer, Attention) and mixer.qkv_bias,
        "hidden_act": "silu",
        "vocab_size": model.vocab,
        "max_position_embeddings": max(model.max_positions or 0, seq_len),
        "tie_word_embeddings": model.tied_embeddings,
        "rope_theta": model.numerics.rope_theta or 500000.0,
        "rms_norm_eps": model.numerics.norm_epsilon or 1e-6,
        "_attn_implementation": "flash_attention_2",
    }
    scaling = model.numerics.rope_scaling
    if scaling is not None and scaling.kind == "linear":
        config["rope_seq_len_interpolation_factor"] = scaling.factor
    bare = bare_period(model)
    if bare is not None:
        config[BARE] = bare
    if experts is not None:
        config["moe_config"] = _moe_config(model, experts)
    return config


def _moe_config(model: ModelSpec, experts: Experts) -> dict[str, Any]:
    sparse = [index for index, name in enumerate(model.layers) if isinstance(model.blocks[name].ffn, Experts)]
    return {
        "num_experts": experts.experts,
        "top_k": experts.topk,
        "moe_intermediate_size": experts.inner,
        "shared_expert_intermediate_size": experts.shared_inner or experts.inner,
        "enable_shared_expert": bool(experts.shared_inner),
        "layers": sparse,
    }


def _parallelism(plan: Plan) -> dict[str, Any]:
    return {
        **degree_keys(plan),
        "pp_engine": ENGINES[plan.schedule] if plan.pp > 1 else "1f1b",
        "tp_mode": MODES[plan.sequence_parallel],
        "tp_linear_async_communication": plan.sequence_parallel,
        "recompute_layer": plan.recompute == "full",
    }


def _optimizer(plan: Plan, run: TrainingRun) -> dict[str, Any]:
    return {
        "zero_stage": plan.zero,
        "accumulate_grad_in_fp32": True,
        "clip_grad": run.clip,
        "weight_decay": run.weight_decay,
        "optimizer_factory": {
            "name": "adamW",
            "adam_beta1": run.beta1,
            "adam_beta2": run.beta2,
            "adam_eps": 1.0e-8,
            "torch_adam_is_fused": True,
        },
        "learning_rate_scheduler": {
            "learning_rate": run.learning_rate,
            "lr_warmup_steps": run.warmup_steps,
            "lr_warmup_style": "linear",
            "lr_decay_style": run.decay_style,
            "lr_decay_starting_step": run.warmup_steps,
            "lr_decay_steps": run.decay_steps - run.warmup_steps,
            "min_decay_lr": run.min_learning_rate,
        },
    }


def nanotron_config(plan: Plan, job: Job) -> dict[str, Any]:
    """Return the whole YAML; paths are those of the user's variables, filled in by the start script."""
    work = job.workload
    run = run_of(job)
    return {
        "general": {"project": "plan", "run": plan.slug, "seed": run.seed, "ignore_sanity_checks": True},
        "checkpoints": {"checkpoints_path": "checkpoints", "checkpoint_interval": run.save_interval},
        "parallelism": _parallelism(plan),
        "model": {
            "dtype": "bfloat16",
            "init_method": {"std": job.model.numerics.init_std or 0.02},
            "make_vocab_size_divisible_by": 1,
            "ddp_bucket_cap_mb": 25,
            "model_config": model_config(job.model, work.seq_len),
        },
        "tokenizer": {"tokenizer_name_or_path": "tokenizer"},
        "optimizer": _optimizer(plan, run),
        "tokens": {
            "sequence_length": work.seq_len,
            "train_steps": run.train_steps,
            "micro_batch_size": int(plan.micro_batch),
            "batch_accumulation_per_replica": int(plan.num_microbatches),
            "val_check_interval": -1,
        },
        "data_stages": [
            {
                "name": "train",
                "start_training_step": 1,
                "data": {
                    "dataset": {"hf_dataset_or_datasets": "data", "text_column_name": "text"},
                    "seed": run.seed,
                    "num_loading_workers": 1,
                },
            }
        ],
        "logging": {"iteration_step_info_interval": run.log_interval},
    }


STEP_LINE = StepLine(r"time_per_iteration_ms: ([0-9.]+K?)", divisor=1000.0, thousands=True)
"""The log has milliseconds in three digits, from a second on in thousands (nanotron, logging/base.py,
`human_format`)."""

VARIABLES = (
    "TRAIN_STEPS", "LEARNING_RATE", "MIN_LEARNING_RATE", "WARMUP_STEPS", "DECAY_STEPS", "SEED",
    "LOG_INTERVAL", "SAVE_INTERVAL",
)  # fmt: skip


def _unreduced(plan: Plan) -> tuple[str, ...]:
    """Return that ZeRO-1 does not reduce gradients of several replicas today.

    References
    ----------
    .. [1] nanotron 2411b022, ``optim/gradient_accumulator.py``, ``get_fp32_accum_hook``.
    """
    if plan.zero == 0 or plan.dp == 1:
        return ()
    return (
        "nanotron since June 2025 (7bc99232) raises NotImplementedError in the first backward of ZeRO-1 with "
        "several replicas: take an earlier commit, or `--zero 0`.",
    )


def nanotron_command(plan: Plan, job: Job, version: str, changes: Changes = NO_CHANGES) -> Command:
    """Return what starts the plan: a small script that fills in the paths and runs nanotron's own."""
    header = f"# nanotron {version} (2411b022, 2026-04-07): run_train.py --config-file nanotron.yaml\n"
    return Command(
        program=("start.py",),
        environment={
            "CUDA_DEVICE_MAX_CONNECTIONS": "1",
            **GROWING_SEGMENTS,
        },
        smoke=("--smoke", str(SMOKE_STEPS)),
        production_needs=("DATA_PATH", "TOKENIZER_PATH", "OUTPUT_DIR"),
        defaults=run_of(job).defaults(*VARIABLES),
        where_set={"WANDB_PROJECT": ("--project", "${WANDB_PROJECT}"), "DATA_CACHE": ()},
        step_line=STEP_LINE,
        files={
            "nanotron.yaml": header + yaml.safe_dump(nanotron_config(plan, job), sort_keys=False),
            "start.py": START,
        },
        notes=(
            *_unreduced(plan),
            *unknown_numerics(job.model),
            *_unbalanced(job.model),
            "Start it again with the same OUTPUT_DIR and it goes on from the last checkpoint. nanotron saves "
            "at intervals alone, not when it is told to stop, has no evaluation (nothing calls its "
            "`validation_step`), and its collectives wait 20 minutes (`default_pg_timeout`).",
            "Checkpoints: weights and optimizer states load under another tp or dp; under another pp, "
            "nanotron warns, the states have not been checked.",
            *trial_note(job.workload),
        ),
    )
