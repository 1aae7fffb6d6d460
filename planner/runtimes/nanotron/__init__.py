"""Nanotron: tensor, pipeline and data parallelism for Llama- and Qwen-shaped models."""

from planner.runtimes.family import Runtime
from planner.runtimes.nanotron import rules
from planner.runtimes.nanotron.files import nanotron_command
from planner.runtimes.traits import Traits

__all__ = ["ENTRY"]

ENTRY = Runtime(
    name="nanotron",
    title="nanotron",
    versions=("0.5",),
    cite="nanotron 2411b022 (2026-04-07): config/, parallel/context.py, models/, trainer.py",
    # bf16 gradients stand beside the fp32 ones that they are added to (optim/gradient_accumulator.py).
    traits=Traits().with_values(
        attention="flash-2",
        tensor_library="plain",
        vocab_parallel_loss=True,
        loss="vocab-parallel-copied",
        fused_weight_gradient=False,
        fused_activation=False,
        tp_bandwidth_share=1.0,
        switch_reductions=True,
        dp_exposed=1.0,
        engine="nanotron-zero",
        gradient_copy_bytes=2.0,
    ),
    default_zero=1,
    zero_stages=(0, 1),
    schedules=("1f1b", "gpipe"),
    cp_methods=("all-gather",),
    recomputes=("none", "full"),
    offloads=("none",),
    precisions=("bf16",),
    methods=("full",),
    own_rules=rules.nanotron_rules,
    command=nanotron_command,
    own_split=rules.own_split,
)
