"""DeepSpeed: ZeRO, offload, its pipeline engine, Ulysses sequence parallelism, AutoTP and AutoEP."""

from planner.runtimes.deepspeed import rules
from planner.runtimes.deepspeed.choices import IDLE, setting_rules
from planner.runtimes.deepspeed.files import SETTINGS, deepspeed_command
from planner.runtimes.eager import EAGER
from planner.runtimes.family import Runtime
from planner.runtimes.hub.config import traits_of_type, unwritten
from planner.runtimes.idle import ADAPTER_DROPOUT
from planner.runtimes.traits import Traits

__all__ = ["ENTRY"]


ENTRY = Runtime(
    name="deepspeed",
    aliases=("zero",),
    title="DeepSpeed",
    versions=("0.19.8",),
    cite="DeepSpeed 0.19.8, runtime/engine.py, runtime/pipe, module_inject, runtime/sequence_parallel",
    traits=Traits().with_values(
        engine="deepspeed-zero",
        loss="tiled",
        gradient_dtype="bf16",
        reduce_dtype="bf16",
        dp_exposed=0.5,
        hidden_collective_traffic=5.0,
        prefetch_elements=5e7,
        optimizer_step="flat-fp32",
        reuse_elements=1e9,
        live_elements=1e9,
        bucket_elements=5e8,
        flat_buckets=2.0,
        **EAGER,
    ),
    default_zero=3,
    zero_stages=(0, 1, 2, 3),
    schedules=("1f1b",),
    cp_methods=("all-to-all",),
    recomputes=("none", "full"),
    offloads=(
        *("none", "optimizer", "optimizer-nvme"),
        *("weights-alone", "weights", "weights-optimizer-nvme", "nvme"),
    ),
    precisions=("bf16", "fp16"),
    methods=("full", "lora"),
    own_rules=rules.deepspeed_rules,
    setting_rules=setting_rules,
    command=deepspeed_command,
    unwritten=unwritten,
    settings=SETTINGS,
    model_traits=traits_of_type,
    idle=(*IDLE, ADAPTER_DROPOUT),
    searched=(
        "bucket_size",
        "host_checkpoints",
        "loss_tiles",
        "mlp_tiles",
        "overlap_comm",
        "quantised_gathers",
        "quantised_reductions",
        "secondary_shards",
    ),
)
