"""PyTorch FSDP2 through Hugging Face Accelerate."""

from planner.runtimes.eager import EAGER
from planner.runtimes.family import Runtime
from planner.runtimes.fsdp import rules
from planner.runtimes.fsdp.files import IDLE, OPTIMIZERS, SETTINGS, fsdp_command
from planner.runtimes.hub.config import traits_of_type, unwritten
from planner.runtimes.idle import ADAPTER_DROPOUT
from planner.runtimes.traits import Traits

__all__ = ["ENTRY"]

ENTRY = Runtime(
    name="fsdp",
    aliases=("accelerate", "fsdp2", "pytorch-fsdp"),
    title="PyTorch FSDP2 through Accelerate",
    versions=("1.15.0",),
    cite="Accelerate 1.15.0, parallelism_config.py and utils/dataclasses.py; transformers 5.23.0; torch 2.13",
    traits=Traits().with_values(
        loss="transformers",
        parameter_dtype="fp32",
        engine="fsdp2",
        ring_attention="torch",
        dp_exposed=0.05,
        dp_window=1.0,
        hidden_collective_traffic=3.0,
        **EAGER,
    ),
    default_zero=3,
    zero_stages=(0, 2, 3),
    schedules=("1f1b",),
    cp_methods=("all-gather", "ring"),
    recomputes=("none", "full"),
    offloads=("none", "weights"),
    precisions=("bf16", "fp16"),
    methods=("full", "lora", "qlora"),
    optimizers=OPTIMIZERS,
    own_rules=rules.fsdp_rules,
    setting_rules=rules.setting_rules,
    hybrid_sharding=True,
    diffusion_methods=("ring", "all-to-all", "dsp"),
    diffusion_rules=rules.diffusion_rules,
    command=fsdp_command,
    unwritten=unwritten,
    settings=SETTINGS,
    model_traits=traits_of_type,
    searched=("reduction",),
    one_dtype=True,
    idle=(*IDLE, ADAPTER_DROPOUT),
)
