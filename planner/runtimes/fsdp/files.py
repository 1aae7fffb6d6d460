"""The Accelerate config, the model's config and the training script of one plan."""

from __future__ import annotations

import json
from typing import Final

import yaml

from planner.inputs.model import ModelSpec
from planner.inputs.workload import Workload
from planner.plan import Plan
from planner.runtimes.family import GROWING_SEGMENTS, Command, Job
from planner.runtimes.fsdp.script import SCRIPT
from planner.runtimes.fsdp.table import COMPILED, FLAGS, MESH, OPTIONS, SHARDS, SIZES, VARIABLES
from planner.runtimes.hub.config import (
    adapter_settings,
    architecture,
    attention_name,
    balancing_loss,
    hub_config,
    layer_class,
    model_notes,
    wrapped_class,
)
from planner.runtimes.hub.script_masks import MASKED_SHARE, with_masks
from planner.runtimes.hub.script_sources import source_settings, with_sources
from planner.runtimes.idle import Idle, TrainingTask
from planner.runtimes.keys import nested
from planner.runtimes.offered import trial_note
from planner.runtimes.script_run import SMOKE, STEP_LINE, defaults, production, where_set
from planner.runtimes.settings import NO_CHANGES, Changes, Settings
from planner.runtimes.training_run import run_of

TORCH_DTYPES: Final = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}

SETTINGS: Final[Settings] = {
    "adapter_dropout": (True,),
    "attention": ("flash-3", "unfused"),
    "compiled": (True,),
    "reduce_dtype": ("bf16",),
}
"""Values of traits that the YAML and the script can say."""

OPTIMIZERS: Final = ("adamw", "adam8bit", "sgd")
"""Optimizers that the script makes: PyTorch's and torchao's, which step FSDP2's tensors."""


def _is_whole(plan: Plan, job: TrainingTask) -> bool:
    return plan.zero == 0


IDLE: Final = (
    Idle(
        "reduce_dtype",
        "fp32",
        when=_is_whole,
        reason="nothing is sharded: DDP reduces gradients in the dtype that they have",
    ),
)
"""What a plan without shards leaves out."""


QUANTISED: Final = (
    "Weights in 4 bits are stored as 16-bit numbers (bnb_4bit_quant_storage), so that FSDP can shard them: "
    "this needs bitsandbytes 0.48 or newer. Each rank reads CHECKPOINT into host memory first.",
)
"""What a user of QLoRA should know (bitsandbytes, docs/source/fsdp_qlora.md)."""


BFLOAT16_WEIGHTS: Final = (
    "Weights, gradients and states rest in bfloat16 alone, without a float32 copy: a step that would change "
    "a weight by less than about a 256th of it changes nothing.",
)
TORCHAO: Final = ("optimizer adam8bit is torchao's AdamW8bit: this needs torchao, of which 0.18 was run.",)


def trains_in_bfloat16(work: Workload) -> bool:
    """Whether weights, gradients and states rest in bfloat16 alone."""
    return work.master_dtype == "bf16"


def mixed_precision(work: Workload) -> str:
    """Return Accelerate's ``mixed_precision``: with any, FSDP2 casts trained weights to float32 [1]_.

    References
    ----------
    .. [1] Accelerate 1.15.0, ``utils/fsdp_utils.py``, ``fsdp2_prepare_model``.
    """
    return "no" if trains_in_bfloat16(work) else work.precision


def mesh(plan: Plan) -> dict[str, int]:
    """Return Accelerate's five sizes; their product is the number of processes."""
    shards = plan.cp if plan.zero == 0 else plan.zero_shards
    return {
        "dp_replicate": int(plan.dp * plan.cp / shards),
        "dp_shard": int(shards / plan.cp),
        "tp": int(plan.tp),
        "cp": int(plan.cp),
        "sp": 1,
    }


def accelerate_config(plan: Plan, job: Job, compiled: bool = False) -> dict[str, object]:
    """Return the keys of the YAML that ``accelerate launch --config_file`` reads."""
    sharded = plan.zero > 0
    several = job.gpus > 1
    config: dict[str, object] = {
        "compute_environment": "LOCAL_MACHINE",
        "debug": False,
        "distributed_type": "FSDP" if sharded else "MULTI_GPU" if several else "NO",
        "downcast_bf16": "no",
        "machine_rank": 0,
        "main_training_function": "main",
        "mixed_precision": mixed_precision(job.workload),
        "num_machines": max(1, job.gpus // job.hardware.pool.gpus_per_node),
        OPTIONS["gpus"].path: job.gpus,
        "rdzv_backend": "static",
        "same_network": True,
        "tpu_use_cluster": False,
        "tpu_use_sudo": False,
        "use_cpu": False,
    }
    if sharded:
        config |= _fsdp_config(plan, job)
    if several and (sharded or plan.tp > 1):
        config |= _parallelism_config(plan)
    if compiled:
        config |= {COMPILED.path: COMPILED.told(True), "dynamo_config.dynamo_use_regional_compilation": True}
    return nested(config)


def _fsdp_config(plan: Plan, job: Job) -> dict[str, object]:
    """Return the section on FSDP; weights in 4 bits are read by every rank, since none are sent round."""
    lean = plan.tp == 1 and job.workload.method != "qlora"
    trained = job.workload.method == "full"
    name = layer_class(architecture(job.model) or "") if trained else wrapped_class(job.model)
    return {
        f"{SHARDS}.fsdp_version": 2,
        OPTIONS["zero"].path: OPTIONS["zero"].told(plan.zero),
        f"{SHARDS}.fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
        **({f"{SHARDS}.fsdp_transformer_layer_cls_to_wrap": name} if name else {}),
        OPTIONS["recompute"].path: OPTIONS["recompute"].told(plan.recompute),
        f"{SHARDS}.fsdp_cpu_ram_efficient_loading": lean,
        f"{SHARDS}.fsdp_sync_module_states": lean,
        OPTIONS["offload"].path: OPTIONS["offload"].told(plan.offload),
        f"{SHARDS}.fsdp_state_dict_type": "SHARDED_STATE_DICT",
    }


def _parallelism_config(plan: Plan) -> dict[str, object]:
    sizes: dict[str, object] = {SIZES[axis]: size for axis, size in mesh(plan).items()}
    method = OPTIONS["cp_method"]
    return sizes | ({method.path: method.told(plan.cp_method)} if plan.cp > 1 else {})


def script_text(plan: Plan, job: Job, changes: Changes = NO_CHANGES) -> str:
    """Return ``train.py`` with the plan's settings at its top."""
    work, run = job.workload, run_of(job)
    frozen = work.method != "full"
    settings = {
        "SEQ_LEN": work.seq_len,
        **adapter_settings(job.model, work, changes),
        "BALANCE": balancing_loss(job.model),
        "QUANTISED": work.method == "qlora",
        "RECOMPUTE": plan.recompute == "full" and plan.zero == 0,
        "TP": int(plan.tp),
        "CP": int(plan.cp),
        "ATTENTION": attention_name(job.model, str(changes.get("attention", "flash-2"))),
        "PRECISION": TORCH_DTYPES[work.precision],
        "WEIGHT_DTYPE": TORCH_DTYPES[work.precision if frozen or trains_in_bfloat16(work) else "fp32"],
        "OPTIMIZER": work.optimizer,
        "REDUCE_DTYPE": TORCH_DTYPES[str(changes.get("reduce_dtype", "fp32"))],
        "BETAS": (run.beta1, run.beta2),
        "WEIGHT_DECAY": run.weight_decay,
        "CLIP": run.clip,
    }
    settings |= {"MASKED_SHARE": MASKED_SHARE} if job.model.fills_masks else {}
    settings |= source_settings(job.model)
    text = with_masks(SCRIPT) if job.model.fills_masks else SCRIPT
    text = with_sources(text) if job.model.crosses else text
    return text.replace("# SETTINGS\n", "".join(f"{name} = {value!r}\n" for name, value in settings.items()))


def notes(plan: Plan, model: ModelSpec, work: Workload) -> tuple[str, ...]:
    """Return what a user should know before starting."""
    sharded = (
        "Checkpoints: the sharded state is PyTorch's distributed checkpoint, which loads under any other "
        "degrees; accelerate merge-weights makes whole weights of it."
    )
    whole = "Checkpoints: the state is whole on every rank and loads under any other degrees."
    return (
        *model_notes(model),
        "Start it again with the same OUTPUT_DIR and it goes on from the last checkpoint, data included.",
        sharded if plan.zero else whole,
        *trial_note(work),
        *(QUANTISED if work.method == "qlora" else ()),
        *(BFLOAT16_WEIGHTS if trains_in_bfloat16(work) else ()),
        *(TORCHAO if work.optimizer == "adam8bit" else ()),
    )


def fsdp_command(plan: Plan, job: Job, version: str, changes: Changes = NO_CHANGES) -> Command:
    """Return what starts the plan: torchrun with the environment, or ``accelerate launch`` with the YAML."""
    config = accelerate_config(plan, job, bool(changes.get("compiled", False)))
    numbers = {"micro_batch": int(plan.micro_batch), "accumulation": int(plan.num_microbatches)}
    flags = tuple(part for name, value in numbers.items() for part in (FLAGS[name], str(value)))
    shared = ("--output_dir", "${OUTPUT_DIR}") if plan.tp > 1 else ()
    method = job.workload.method
    start = " ".join(
        ("accelerate launch --config_file accelerate.yaml train.py", *flags, '--output_dir "$OUTPUT_DIR"',
         "--train_steps", str(run_of(job).train_steps))
    )  # fmt: skip
    return Command(
        program=("train.py", *flags),
        environment=_environment(job, config),
        needs=(*(("CHECKPOINT",) if method == "qlora" else ()), *(("OUTPUT_DIR",) if shared else ())),
        production=production(),
        smoke=(*SMOKE, *shared),
        production_needs=(
            "DATA_PATH", "TOKENIZER_PATH", "OUTPUT_DIR", *(("CHECKPOINT",) if method != "full" else ()),
        ),
        defaults=defaults(run_of(job)),
        where_set=where_set(method),
        step_line=STEP_LINE,
        files={
            "accelerate.yaml": f"# Accelerate {version}\n# {start}\n"
            + yaml.safe_dump(config, sort_keys=False),
            "train.py": script_text(plan, job, changes),
            "config.json": json.dumps(hub_config(job.model, job.workload.seq_len), indent=2) + "\n",
        },
        notes=notes(plan, job.model, job.workload),
    )  # fmt: skip


def _environment(job: Job, config: dict[str, object]) -> dict[str, str]:
    """Return what ``accelerate launch`` would export, so that torchrun alone starts the same job."""
    names = {**GROWING_SEGMENTS, "ACCELERATE_MIXED_PRECISION": mixed_precision(job.workload)}
    fsdp = config.get(SHARDS)
    if isinstance(fsdp, dict):
        names |= {"ACCELERATE_USE_FSDP": "true"}
        names |= {str(VARIABLES.get(key, key)).upper(): _text(value) for key, value in fsdp.items()}
    dynamo = config.get("dynamo_config")
    if isinstance(dynamo, dict):
        names |= {f"ACCELERATE_{key}".upper(): str(value) for key, value in dynamo.items()}
    sizes = config.get(MESH)
    if isinstance(sizes, dict):
        names |= {"ACCELERATE_USE_PARALLELISM_CONFIG": "true"}
        names |= {key.upper(): _text(value) for key, value in sizes.items()}
    return names


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
