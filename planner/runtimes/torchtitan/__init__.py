"""torchtitan: FSDP2 with tensor, context, pipeline and expert parallelism."""

from planner.runtimes.eager import HOST
from planner.runtimes.family import Runtime
from planner.runtimes.torchtitan import rules
from planner.runtimes.torchtitan.choice import DEFAULT_CHUNKS
from planner.runtimes.torchtitan.delta import delta_traits
from planner.runtimes.torchtitan.files import SETTINGS, torchtitan_command
from planner.runtimes.torchtitan.flux import flux_command, flux_rules
from planner.runtimes.torchtitan.orders import order_command
from planner.runtimes.torchtitan.saving import saves
from planner.runtimes.torchtitan.schedules import SCHEDULES
from planner.runtimes.torchtitan.vision import TOWER
from planner.runtimes.traits import Traits

__all__ = ["ENTRY"]

ENTRY = Runtime(
    name="torchtitan",
    aliases=("titan",),
    title="torchtitan",
    versions=("main-2026-08-21", "0.2.2", "0.2.1", "0.2.0"),
    cite="torchtitan b5bcd76c (2026-08-21): config/, distributed/, trainer.py; torch 2.13 pipelining",
    traits=Traits().with_values(
        attention="flash-2",
        fused_norm=True,
        fused_activation=True,
        fused_rope=True,
        rotary_chain="complex",
        attention_code="rescaled",
        compiled=True,
        loss="chunked",
        loss_chunks=DEFAULT_CHUNKS,
        vocab_parallel_loss=True,
        fused_weight_gradient=False,
        selective="second-products",
        tensor_library="dtensor",
        parameter_dtype="fp32",
        low_bit_weights="passing",
        float8_scales="rows",
        engine="torchtitan-fsdp2",
        ring_attention="torch",
        encoder_again=True,
        dp_exposed=0.05,
        dp_window=1.0,
        hidden_collective_traffic=3.0,
        **HOST,
    ),
    default_zero=3,
    zero_stages=(0, 2, 3),
    schedules=tuple(SCHEDULES),
    cp_methods=("all-gather",),
    recomputes=("none", "selective", "full"),
    offloads=("none", "weights"),
    precisions=("bf16", "fp8", "mxfp8", "nvfp4"),
    methods=("full",),
    own_rules=rules.torchtitan_rules,
    setting_rules=rules.setting_rules,
    hybrid_sharding=True,
    encoders=(TOWER,),
    split_encoders=(TOWER,),
    diffusion_methods=("all-gather",),
    diffusion_rules=flux_rules,
    diffusion_command=flux_command,
    one_dtype=True,
    command=torchtitan_command,
    behind_saves="copies",  # ``async_with_pinned_mem``: torchtitan/components/checkpointer/dcp.py
    lone_replicas=True,
    saves=saves,
    order_command=order_command,
    model_traits=delta_traits,
    settings=SETTINGS,
    searched=("async_tp", "compiled", "float8_scales", "loss_chunks"),
)
