"""The Python file that Megatron-Bridge runs: one ConfigContainer, every field of the plan stated."""

from __future__ import annotations

from collections.abc import Mapping

from planner.dataclasses import dataclass
from planner.plan import Plan
from planner.runtimes.family import Job
from planner.runtimes.megatron_bridge.adapters import adapter_section
from planner.runtimes.megatron_bridge.code import Code, Section, setting
from planner.runtimes.megatron_bridge.hybrid import PROVIDER
from planner.runtimes.megatron_bridge.own_layers import own_layers
from planner.runtimes.megatron_bridge.run_sections import (
    checkpoint_section,
    data_kinds,
    dataset_section,
    distributed_section,
    logger_section,
    scheduler_section,
    smoke_code,
    starts_trained,
    tokenizer_section,
    train_section,
    validation_section,
)
from planner.runtimes.megatron_bridge.sections import (
    DELTA_LAYERS,
    MIXED_LAYERS,
    RECIPES,
    ddp_section,
    model_section,
    optimizer_section,
    overlap_section,
    precision_fields,
)
from planner.runtimes.megatron_bridge.settings import set_fields, set_precision
from planner.runtimes.megatron_bridge.vision import imports_of, provider_of, seen_as, sees
from planner.runtimes.megatron_lm.hybrid import is_hybrid
from planner.runtimes.megatron_lm.run_flags import NEEDS, defaults
from planner.runtimes.settings import Changes
from planner.runtimes.training_run import run_of

HEAD = '''\
"""{what} with Megatron-Bridge {version}; start it with the launch script beside it."""

import os
from string import Template
import sys
{first}
# An inherited value would stop the run, so the file sets what the plan assumes.
os.environ.update(
{environment})

import torch
from megatron.bridge.models.{module} import {provider}
{adapters}from megatron.bridge.training.comm_overlap import CommOverlapConfig
from megatron.bridge.training.config import (
    CheckpointConfig,
    ConfigContainer,
    DistributedDataParallelConfig,
    DistributedInitConfig,
    GPTDatasetConfig,
    LoggerConfig,
    MockGPTDatasetConfig,
    OptimizerConfig,
    RNGConfig,
{rerun}    SchedulerConfig,
    TokenizerConfig,
    TrainingConfig,
    ValidationConfig,
)
from megatron.bridge.training.mixed_precision import get_mixed_precision_config
{last}
SMOKE = os.environ.get("SMOKE", "") not in ("", "0")
NEEDS = {needs!r}
REAL_NEEDS = {real!r}
{names} = (os.environ.get(name) for name in (*NEEDS, *REAL_NEEDS))
DEFAULTS = {{
{defaults}}}
SETTINGS = {{}}
for name, value in DEFAULTS.items():  # a default may follow a setting before it
    SETTINGS[name] = os.environ.get(name) or Template(value).safe_substitute({{**os.environ, **SETTINGS}})


def build_config():
    """Return the whole configuration."""
'''

TAIL = '''

def main():
    """Train, or say which variable is missing."""
    needed = NEEDS if SMOKE else (*NEEDS, *REAL_NEEDS)
    missing = [name for name in needed if not os.environ.get(name)]
    if missing:
        sys.exit(f"Set the variable {{missing[0]}} before starting this file.")
    from megatron.bridge.{step} import forward_step
    from megatron.bridge.training.pretrain import pretrain

    pretrain(config=smoke_config() if SMOKE else build_config(), forward_step_func=forward_step)


if __name__ == "__main__":
    main()
'''

LAYERS = "from megatron.core.models.gpt.gpt_layer_specs import get_gpt_decoder_block_spec\n"
DELTA = """from megatron.core.models.gpt.experimental_attention_variant_module_specs import (
    get_transformer_block_with_experimental_attention_variant_spec,
)
"""
FUNCTIONS = {
    "quick_gelu": "from megatron.core.fusions.fused_bias_geglu import quick_gelu\n",
    "squared_relu": "from megatron.core.activations import squared_relu\n",
}
"""Activations that are Megatron-core's own."""
BACKEND = "from megatron.core.transformer.enums import AttnBackend\n"


def needs(job: Job) -> tuple[str, ...]:
    """Return the user's variables that any run needs: a processor of images, weights to start from."""
    weights = ("CHECKPOINT",) if starts_trained(job.workload) else ()
    return ("TOKENIZER_PATH", *weights) if sees(job.model) else weights


def real_needs(job: Job) -> tuple[str, ...]:
    """Return the user's variables that a real run needs beside those."""
    return tuple(name for name in NEEDS if name not in needs(job))


@dataclass(frozen=True)
class Say:
    """What the file says beside the plan: a release, the environment, the traits that the user changed."""

    version: str
    environment: Mapping[str, str]
    changes: Changes


def script_text(plan: Plan, job: Job, say: Say) -> str:
    """Return the file's text for a legal scalar plan."""
    model, adapters = model_section(plan, job), job.workload.method == "lora"
    module, provider = ("gpt_provider", "GPTModelProvider")
    if model.get("multi_latent_attention", False):
        module, provider = ("mla_provider", "MLAModelProvider")
    if is_hybrid(job.model):
        module, provider = PROVIDER
    if sees(job.model):
        module, provider = provider_of(job.model)
    if own := own_layers(job.model):
        module, provider = own.module, own.provider
    mixed, always = model.get("transformer_layer_spec") == MIXED_LAYERS, needs(job)
    delta = model.get("transformer_layer_spec") == DELTA_LAYERS
    known = defaults(run_of(job)) | {"DATA_CACHE": "cache"}
    head = HEAD.format(
        what="LoRA fine-tuning" if adapters else "Pre-training",
        version=say.version,
        first="from functools import partial\n" if mixed else "",
        environment="".join(f"    {name}={value!r},\n" for name, value in say.environment.items()),
        module=module,
        provider=provider,
        adapters=("from megatron.bridge.peft.lora import LoRA\n" if adapters else "")
        + imports_of(job.model)
        + (own.imports if own else ""),
        last=(LAYERS if mixed else DELTA if delta else "")
        + (BACKEND if "attention" in say.changes else "")
        + "".join(text for name, text in FUNCTIONS.items() if model.get("activation_func") == name),
        rerun="    RerunStateMachineConfig,\n" if _whole_graph(say.changes) else "",
        needs=always,
        real=real_needs(job),
        names=", ".join((*always, *real_needs(job))),
        defaults="".join(f"    {name!r}: {value!r},\n" for name, value in known.items()),
    )
    tail = TAIL.format(step=seen_as(job.model).step if sees(job.model) else "training.gpt_step")
    return head + _body(plan, job, provider, say.changes) + smoke_code(job) + tail


def _body(plan: Plan, job: Job, provider: str, changes: Changes) -> str:
    work, run = job.workload, run_of(job)
    fields = precision_fields(work) | set_precision(plan, work, changes)
    lines = [f"    precision = get_mixed_precision_config({RECIPES[work.precision]!r})\n"]
    lines += [f"    precision.{name} = {_shown(value)}\n" for name, value in fields.items()]
    calls: dict[str, tuple[str, Section]] = {
        "model": (provider, model_section(plan, job)),
        "train": ("TrainingConfig", train_section(plan, work)),
        "validation": ("ValidationConfig", validation_section()),
        "optimizer": ("OptimizerConfig", optimizer_section(plan, work, run)),
        "scheduler": ("SchedulerConfig", scheduler_section(run)),
        "ddp": ("DistributedDataParallelConfig", ddp_section(plan, work)),
        "dist": ("DistributedInitConfig", distributed_section(plan)),
        "dataset": (data_kinds(job)[0], dataset_section(job)),
        "logger": ("LoggerConfig", logger_section(plan, job)),
        "tokenizer": ("TokenizerConfig", tokenizer_section(job)),
        "checkpoint": ("CheckpointConfig", checkpoint_section(plan, work)),
        "rng": ("RNGConfig", {"seed": setting("SEED")}),
        "comm_overlap": ("CommOverlapConfig", overlap_section(plan)),
    }
    if work.method == "lora":
        calls["peft"] = ("LoRA", adapter_section(plan, job, changes))
    if _whole_graph(changes):
        calls["rerun_state_machine"] = ("RerunStateMachineConfig", {"check_for_nan_in_loss": False})
    lines.append("    return ConfigContainer(\n")
    said = set_fields(plan, job, changes)
    lines += [_call(name, kind, section | said.get(name, {})) for name, (kind, section) in calls.items()]
    return "".join([*lines, "        mixed_precision=precision,\n", "    )\n"])


def _whole_graph(changes: Changes) -> bool:
    return changes.get("graphed") == "passes"


def _call(name: str, kind: str, section: Section) -> str:
    fields = "".join(f"            {field}={_shown(value)},\n" for field, value in section.items())
    return f"        {name}={kind}(\n{fields}        ),\n"


def _shown(value: object) -> str:
    return str(value) if isinstance(value, Code) else repr(value)
