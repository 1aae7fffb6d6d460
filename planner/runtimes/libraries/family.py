"""A library above Hugging Face's Trainer: the file that it reads, and what starts it for a plan."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final

import yaml

from planner.dataclasses import dataclass, replace
from planner.errors import UnsupportedPlan
from planner.plan import Plan
from planner.runtimes.deepspeed.files import zero_config
from planner.runtimes.family import GROWING_SEGMENTS, Command, Job, Runtime, says_all
from planner.runtimes.fsdp.files import TORCH_DTYPES, trains_in_bfloat16
from planner.runtimes.hub.config import (
    adapter_dropout,
    adapter_settings,
    attention_name,
    hub_config,
    unwritten,
    wrapped_class,
)
from planner.runtimes.offered import trial_note
from planner.runtimes.settings import NO_CHANGES, Changes, Settings
from planner.runtimes.training_run import TrainingRun, run_of
from planner.techniques.offload import OFFLOADS
from planner.techniques.offload.family import read_offload

DS_CONFIG: Final = "ds_config.json"
HOSTS: Final = ("fsdp", "deepspeed")
"""Runtimes under the Trainer, the usual one first."""

FIXED: Final[Mapping[str, int]] = MappingProxyType({"tp": 1, "pp": 1, "cp": 1, "ep": 1})
"""Axes of which these files say nothing, with the one value that they run."""

SETTINGS: Final[Settings] = {"adapter_dropout": (True,), "attention": ("flash-3", "unfused")}
"""Values of traits that the files can say."""

OPTIM: Final = {"adamw": "adamw_torch_fused", "adam8bit": "adamw_torch_8bit", "sgd": "sgd"}
"""The Trainer's names of the optimizers, PyTorch's and torchao's (transformers 5.24, training_args.py)."""

VARIABLES: Final = ("TRAIN_STEPS", "LEARNING_RATE", "WARMUP_STEPS", "SEED", "LOG_INTERVAL", "SAVE_INTERVAL")
"""The user's variables that the libraries take beside the paths."""

NO_SMOKE: Final = "its files always train on the data that DATA_PATH names; TRAIN_STEPS=20 tries them"


@dataclass(frozen=True)
class Tuning:
    """A plan as a library writes it."""

    plan: Plan
    job: Job
    """The scalar plan, and what it is for."""
    host: str
    """The runtime under the Trainer: ``fsdp`` or ``deepspeed``."""
    attention: str
    """As transformers names the implementation."""
    dropout: float
    """Share of its input that an adapter drops."""

    @property
    def run(self) -> TrainingRun:
        """How long it trains, at which rate, and when it saves."""
        return run_of(self.job)

    @property
    def method(self) -> str:
        """What is trained: ``full``, ``lora`` or ``qlora``."""
        return self.job.workload.method

    @property
    def in_bfloat16(self) -> bool:
        """Whether weights, gradients and states rest in bfloat16 alone."""
        return trains_in_bfloat16(self.job.workload)

    @property
    def loaded_dtype(self) -> str:
        """In which weights are loaded, as PyTorch names it: 16 bits where they are frozen or nothing else."""
        alone = self.method != "full" or self.in_bfloat16
        return TORCH_DTYPES[self.job.workload.precision if alone else "fp32"]

    @property
    def sharded(self) -> bool:
        """Whether FSDP shards it; replicas alone are plain data parallelism."""
        return self.host == "fsdp" and self.plan.zero > 0

    @property
    def recomputed(self) -> bool:
        """Whether the Trainer recomputes layers; what FSDP shards, FSDP recomputes."""
        return self.plan.recompute == "full" and not self.sharded

    @property
    def adapted(self) -> list[str] | str:
        """Names of the layers with adapters, or ``all-linear``."""
        found = adapter_settings(self.job.model, self.job.workload)["LORA_TARGETS"]
        return [str(name) for name in found] if isinstance(found, list | tuple) else str(found)

    @property
    def wrapped(self) -> dict[str, str]:
        """The class of a layer, where its shapes leave no doubt; otherwise the checkpoint's code names it."""
        name = wrapped_class(self.job.model)
        return {"transformer_layer_cls_to_wrap": name} if name else {}

    @property
    def fsdp_config(self) -> dict[str, Any]:
        """FSDP2's section, in the names without a prefix that the Trainer has."""
        lean = self.method != "qlora"
        hosted = {"cpu_offload": True} if self.plan.offload == "weights" else {}
        return hosted | {
            "version": 2,
            "reshard_after_forward": self.plan.zero == 3,
            "auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
            **self.wrapped,
            "activation_checkpointing": self.plan.recompute == "full",
            "cpu_ram_efficient_loading": lean,
            "state_dict_type": "SHARDED_STATE_DICT",
        }


@dataclass(frozen=True)
class Library:
    """One library."""

    name: str
    """As on the command line."""
    title: str
    """As its authors write it."""
    version: str
    """The release whose file is written."""
    cite: str
    """Where its keys were read."""
    file: str
    """Name of the file that it reads."""
    tree: Callable[[Tuning], Mapping[str, Any]]
    """From a `Tuning` to the content of that file."""
    program: tuple[str, ...]
    """What torchrun starts: a module and its arguments."""
    arguments: Mapping[str, tuple[str, ...]]
    """The user's variable to the arguments that take it."""
    notes: tuple[str, ...] = ()
    """What a user should know before starting."""
    aliases: tuple[str, ...] = ()
    """Other names."""

    def on(self, runtime: Runtime) -> Runtime:
        """Return a runtime under the Trainer, one of `HOSTS`, that writes the files of this library."""
        return replace(
            runtime,
            title=self.title,
            versions=(self.version,),
            cite=self.cite,
            hybrid_sharding=False,
            settings=SETTINGS,
            command=partial(library_command, self, runtime.name),
            order_command=None,
            unwritten=says_all,
        )


def library_command(
    library: Library, host: str, plan: Plan, job: Job, version: str, changes: Changes = NO_CHANGES
) -> Command:
    """Return what starts a plan with a library.

    Raises
    ------
    UnsupportedPlan
        If the library cannot say the plan; the message has every reason.
    """
    _refuse(library, host, plan, job)
    kernel = attention_name(job.model, str(changes.get("attention", "flash-2")))
    tuning = Tuning(plan, job, host, kernel, adapter_dropout(changes))
    tree = dict(library.tree(tuning))
    start = f"accelerate launch --num_processes {job.gpus} -m {library.program[0]} {library.file}"
    files = {
        library.file: f"# {library.title} {version}\n# {start}\n" + yaml.safe_dump(tree, sort_keys=False),
    }
    if not unwritten(job.model):
        files["config.json"] = json.dumps(hub_config(job.model, job.workload.seq_len), indent=2) + "\n"
    if host == "deepspeed":
        files[DS_CONFIG] = json.dumps(trainer_ds_config(plan, job), indent=2) + "\n"
    needs = ("CHECKPOINT", *(name for name in library.arguments if name not in ("CHECKPOINT", *VARIABLES)))
    return Command(
        program=library.program,
        module=True,
        environment=dict(GROWING_SEGMENTS),
        needs=needs,
        production=tuple(part for parts in library.arguments.values() for part in parts)
        + _deepspeed_argument(library, host),
        no_smoke=NO_SMOKE,
        defaults=tuning.run.defaults(*VARIABLES),
        files=files,
        notes=(*library.notes, *trial_note(job.workload)),
    )


def _deepspeed_argument(library: Library, host: str) -> tuple[str, ...]:
    """Return the argument that names DeepSpeed's file beside the script, as the library takes arguments."""
    if host != "deepspeed":
        return ()
    path = f"${{HERE}}/{DS_CONFIG}"
    joined = "=" in library.arguments["CHECKPOINT"][0]
    sign = "--" if library.arguments["CHECKPOINT"][0].startswith("--") else ""
    return (f"{sign}deepspeed={path}",) if joined else ("--deepspeed", path)


def _refuse(library: Library, host: str, plan: Plan, job: Job) -> None:
    if job.model.fills_masks:
        raise UnsupportedPlan(
            f"files for {library.title} train next tokens, and {job.model.name} fills in masked ones; "
            f"nearest: no --target, the files of {host}"
        )
    if job.model.crosses:
        raise UnsupportedPlan(
            f"files for {library.title} train next tokens, and {job.model.name} is an encoder beside a "
            f"decoder; nearest: no --target, the files of {host}"
        )
    faults = [f"{axis} {getattr(plan, axis)}" for axis, one in FIXED.items() if getattr(plan, axis) != one]
    if plan.zero and plan.zero_shards != plan.dp:
        faults.append(f"shards over {plan.zero_shards} of {plan.dp} ranks")
    offload, known = read_offload(OFFLOADS, plan.offload), "weights" if host == "fsdp" else "optimizer"
    if offload.name not in ("none", known) or offload.hosted not in (0.0, 1.0):
        raise UnsupportedPlan(
            f"files for {library.title} say offload none or {known} on this runtime, and the plan has "
            f"offload {plan.offload}; nearest: --offload {known}"
        )
    if plan.zero and job.workload.optimizer == "adam8bit" and trains_in_bfloat16(job.workload):
        raise UnsupportedPlan(
            f"files for {library.title} ask for torchao's AdamW8bit, which cannot trace the states of "
            "sharded bfloat16 weights (torchao 0.18); nearest: --zero 0, no dtypes, or no --target"
        )
    if faults:
        raise UnsupportedPlan(
            f"files for {library.title} say data parallelism alone, sharded over all ranks, and the plan has "
            f"{', '.join(faults)}; nearest: tp 1, pp 1, cp 1, ep 1 and --zero-shards {job.gpus}"
        )


def trainer_ds_config(plan: Plan, job: Job) -> dict[str, Any]:
    """Return DeepSpeed's file under the Trainer, which fills in what is ``auto`` from its own arguments.

    References
    ----------
    .. [1] transformers 5.24, ``integrations/deepspeed.py``: ``trainer_config_process``; a number here that
       differs from the Trainer's argument is refused at the start.
    """
    work = job.workload
    gathered = {"stage3_gather_16bit_weights_on_model_save": True} if plan.zero == 3 else {}
    return {
        "train_batch_size": "auto",
        "train_micro_batch_size_per_gpu": "auto",
        "gradient_accumulation_steps": "auto",
        "gradient_clipping": "auto",
        work.precision: {"enabled": "auto"},
        "data_types": {"grad_accum_dtype": work.gradient_dtype or work.precision},
        "communication_data_type": work.precision,
        "optimizer": {
            "type": "AdamW",
            "params": {"lr": "auto", "betas": "auto", "eps": "auto", "weight_decay": "auto"},
        },
        "zero_optimization": zero_config(plan, job.model.params) | gathered,
        "steps_per_print": 1_000_000_000,
        "wall_clock_breakdown": False,
    }


def trainer_fields(tuning: Tuning) -> dict[str, Any]:
    """Return the arguments of transformers' Trainer that every library here passes on.

    References
    ----------
    .. [1] transformers 5.24, ``training_args.py``: ``TrainingArguments``.
    """
    run, plan = tuning.run, tuning.plan
    found: dict[str, Any] = {
        "per_device_train_batch_size": int(plan.micro_batch),
        "gradient_accumulation_steps": int(plan.num_microbatches),
        "gradient_checkpointing": tuning.recomputed,
        "bf16": tuning.job.workload.precision == "bf16" and not tuning.in_bfloat16,
        "optim": OPTIM[tuning.job.workload.optimizer],
        "adam_beta1": run.beta1,
        "adam_beta2": run.beta2,
        "weight_decay": run.weight_decay,
        "max_grad_norm": run.clip,
        "lr_scheduler_type": "cosine",
        "max_steps": run.train_steps,
        "learning_rate": run.learning_rate,
        "warmup_steps": run.warmup_steps,
        "seed": run.seed,
        "logging_steps": run.log_interval,
        "save_steps": run.save_interval,
        "report_to": "none",
    }
    if tuning.job.workload.precision == "fp16":
        found["fp16"] = True
    if tuning.host == "deepspeed":
        found["deepspeed"] = DS_CONFIG
    if tuning.sharded:
        found["fsdp"] = "full_shard auto_wrap"
        found["fsdp_config"] = tuning.fsdp_config
    return found
