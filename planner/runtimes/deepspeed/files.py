"""The ds_config.json, the model's config and the training script of one plan."""

from __future__ import annotations

import json
import math
from typing import Final

from planner.inputs.model import ModelSpec
from planner.inputs.workload import Workload
from planner.plan import Plan
from planner.runtimes.deepspeed.checkpoints import checkpoint_section
from planner.runtimes.deepspeed.offloads import DISK_PATH, aio_section, group_size, offload_section
from planner.runtimes.deepspeed.script import script
from planner.runtimes.deepspeed.table import (
    ELEMENTS,
    EXPERTS,
    OPTIONS,
    OVERLAP,
    PRECISIONS,
    REDUCED,
    SIZES,
    ZERO,
)
from planner.runtimes.deepspeed.tiles import COUNTS, TILES
from planner.runtimes.deepspeed.zeropp import ASKED, zeropp_section
from planner.runtimes.family import GROWING_SEGMENTS, Command, Job
from planner.runtimes.hub.config import (
    adapter_settings,
    attention_name,
    balancing_loss,
    hub_config,
    model_notes,
)
from planner.runtimes.hub.script_masks import MASKED_SHARE
from planner.runtimes.hub.script_sources import source_settings
from planner.runtimes.keys import nested
from planner.runtimes.offered import stage_layers, trial_note
from planner.runtimes.script_run import SMOKE, STEP_LINE, defaults, production, where_set
from planner.runtimes.settings import ANY, NO_CHANGES, Changes, Settings
from planner.runtimes.training_run import TrainingRun, run_of
from planner.techniques.offload import OFFLOADS
from planner.techniques.offload.family import read_offload


def zero_config(
    plan: Plan, params: float, changes: Changes = NO_CHANGES, largest: int = 0
) -> dict[str, object]:
    """Return the section ``zero_optimization``, buckets and overlap said.

    ``params`` are the model's, ``largest`` the elements of the largest part of a weight that a rank has.
    """
    sizes = {name: int(changes.get(name, ELEMENTS[name])) for name in SIZES}
    bucket, overlap = sizes["bucket_elements"], "dp_exposed" not in changes
    config: dict[str, object] = {OPTIONS["zero"].name: plan.zero}
    if plan.zero == 0:
        return config
    config |= {OVERLAP.name: overlap, "contiguous_gradients": True, SIZES["bucket_elements"].name: bucket}
    if plan.zero < 3:
        config |= {"reduce_scatter": True, "allgather_partitions": True, "allgather_bucket_size": bucket}
    else:
        config |= {key.name: sizes[name] for name, key in SIZES.items()}
        config |= {
            "stage3_param_persistence_threshold": 100_000,
            "sub_group_size": group_size(plan.offload, params / float(plan.zero_shards)),
            "stage3_gather_16bit_weights_on_model_save": True,
        }
    return config | offload_section(plan.offload, largest)


def _batch_keys(plan: Plan, work: Workload) -> dict[str, object]:
    """Return micro-batch and accumulation; the total only where DeepSpeed counts it over dp alone."""
    said: dict[str, object] = {} if plan.tp > 1 else {"global_batch": work.global_batch}
    said |= {"micro_batch": int(plan.micro_batch), "accumulation": int(plan.num_microbatches)}
    return {OPTIONS[name].path: value for name, value in said.items()}


def _degree_keys(plan: Plan) -> dict[str, object]:
    """Return the keys of the degrees that are above one."""
    said = {name: int(getattr(plan, name)) for name in ("tp", "ep", "cp") if getattr(plan, name) > 1}
    switch: dict[str, object] = {EXPERTS: True} if "ep" in said else {}
    return switch | {OPTIONS[name].path: value for name, value in said.items()}


SETTINGS: Final[Settings] = {
    "adapter_dropout": (True,),
    "attention": ("flash-3", "unfused"),
    "compiled": (True,),
    "dp_exposed": (1.0,),
    "flat_buckets": (1.0,),
    "gradient_dtype": ("fp32",),
    "host_checkpoints": (True,),
    **dict.fromkeys(ASKED, (True,)),
    **dict.fromkeys(TILES.values(), COUNTS),
    "reduce_dtype": ("fp32", "fp16"),
    **dict.fromkeys(ELEMENTS, (ANY,)),
}
"""Values of traits that the JSON and the script can say; dp_exposed 1 is no overlap at all."""


def ds_config(plan: Plan, job: Job, run: TrainingRun, changes: Changes = NO_CHANGES) -> dict[str, object]:
    """Return the whole of ``ds_config.json``, resolved values only; the script sets the rate of each step."""
    work, per_node = job.workload, min(job.hardware.pool.gpus_per_node, job.gpus)
    largest = math.ceil(max(job.model.hidden * job.model.vocab, 1) / plan.zero_shards)
    gradient = changes.get("gradient_dtype") or work.gradient_dtype or work.precision
    said = _batch_keys(plan, work)
    said |= {PRECISIONS[work.precision]: True, OPTIONS["gradient_dtype"].path: gradient}
    said |= {REDUCED.path: changes.get("reduce_dtype", work.precision)}
    config = nested(said) | {
        "gradient_clipping": run.clip,
        "optimizer": {
            "type": "AdamW",
            "params": {
                "lr": run.learning_rate,
                "betas": [run.beta1, run.beta2],
                "weight_decay": run.weight_decay,
            },
        },
        ZERO: zero_config(plan, job.model.params, changes, largest) | zeropp_section(plan, changes, per_node),
        "steps_per_print": 1_000_000_000,
        "wall_clock_breakdown": False,
    }
    config |= nested(_degree_keys(plan)) | aio_section(plan.offload)
    config |= checkpoint_section(bool(changes.get("host_checkpoints", False)))
    if plan.pp > 1:
        config["pipeline"] = {"activation_checkpoint_interval": 0}
    return config


def notes(model: ModelSpec, work: Workload) -> tuple[str, ...]:
    """Return what a user should know before starting."""
    return (
        *model_notes(model),
        "Start it again with the same OUTPUT_DIR and it goes on from the last checkpoint, data included.",
        "Checkpoints: ZeRO writes one part for each rank. To go on under other degrees, convert them with "
        "python -m deepspeed.checkpoint.ds_to_universal and set checkpoint.load_universal in ds_config.json; "
        "zero_to_fp32.py, which is saved beside them, makes whole weights.",
        *trial_note(work),
    )


def deepspeed_command(plan: Plan, job: Job, version: str, changes: Changes = NO_CHANGES) -> Command:
    """Return what starts the plan: the script under torchrun, or under the ``deepspeed`` launcher."""
    work = job.workload
    attention = attention_name(job.model, str(changes.get("attention", "flash-2")))
    settings: dict[str, object] = {"SEQ_LEN": work.seq_len, "RECOMPUTE": plan.recompute == "full"}
    settings |= {"ATTENTION": attention, "COMPILED": bool(changes.get("compiled", False))}
    if plan.pp > 1:
        settings["STAGE_LAYERS"] = stage_layers(plan, job.model)
    else:
        settings |= {"TP": int(plan.tp), "SP": int(plan.cp)}
        settings |= {name: int(changes.get(trait, 1.0)) for name, trait in TILES.items()}
        settings |= adapter_settings(job.model, work, changes) | {"BALANCE": balancing_loss(job.model)}
    settings |= {"MASKED_SHARE": MASKED_SHARE} if job.model.fills_masks else {}
    settings |= source_settings(job.model)
    run = run_of(job)
    return Command(
        program=("train.py", "--deepspeed_config", "ds_config.json"),
        environment=GROWING_SEGMENTS,
        needs=(DISK_PATH,) * read_offload(OFFLOADS, plan.offload).disk,
        production=production(),
        smoke=SMOKE,
        production_needs=(
            "DATA_PATH", "TOKENIZER_PATH", "OUTPUT_DIR", *(("CHECKPOINT",) if work.method != "full" else ()),
        ),
        defaults=defaults(run),
        where_set=where_set(work.method, bool(plan.pp > 1)),
        step_line=STEP_LINE,
        files={
            "ds_config.json": json.dumps(ds_config(plan, job, run, changes), indent=2) + "\n",
            "config.json": json.dumps(hub_config(job.model, work.seq_len), indent=2) + "\n",
            "train.py": script(settings, piped=bool(plan.pp > 1)),
        },
        notes=notes(job.model, work),
    )  # fmt: skip
