"""What nanotron's sweep on a cloud tells of that runtime, and of its releases of 2025."""

from __future__ import annotations

from typing import Final

from planner.calibrate.fit import Factor, memory_log_errors
from planner.calibrate.stage import Stage
from planner.calibrate.stage_runs import layout, source_runs, weighed

STALLED: Final = 0.15
"""Error at which a run of the sweep begins to count less: each is a single step, and a tenth of them waited
for something that no row tells. [-]"""

NANOTRON_STAGES: Final = (
    Stage(
        "nanotron",
        source_runs("ultrascale-playbook"),
        (
            Factor(
                ("runtime", "nanotron", "layer_floor_seconds"),
                4e-3,
                "host time of a dense layer, both passes: the floor of its time [s]",
                1.0,
            ),
            Factor(
                ("runtime", "nanotron", "compute_derate"),
                0.85,
                "share of the kernels' stand-alone rate that its training steps reach [-]",
                0.2,
            ),
            Factor(
                ("runtime", "nanotron", "optimizer_traffic"),
                3.0,
                "bytes that an optimizer's step moves over those of one fused kernel [-]",
                1.0,
            ),
            Factor(
                ("runtime", "nanotron", "dp_rate_share"),
                0.8,
                "share of nccl-tests rate, latency alike, of data-parallel collectives [-]",
                0.5,
            ),
            Factor(
                ("era", "nanotron", "tensor_hop_seconds"),
                8e-4,
                "latency of a tensor-parallel collective for each doubling of its nodes [s]",
                1.0,
            ),
            Factor(
                ("era", "nanotron", "sequence_rank_seconds"),
                2e-3,
                "least time of a sequence-parallel layer for each rank of a fast domain [s]",
                1.0,
            ),
            Factor(
                ("era", "nanotron", "sequence_far_seconds"),
                2.5e-3,
                "the same for each rank beyond it [s]",
                1.0,
            ),
        ),
        layout,
        "https://huggingface.co/spaces/nanotron/ultrascale-playbook",
        soft=STALLED,
    ),
    Stage(
        "memory of nanotron",
        weighed(source_runs("ultrascale-playbook")),
        (
            Factor(
                ("era", "nanotron", "reserve_share"),
                0.1,
                "allocator reserve as a share of activations and workspace [-]",
                1.0,
            ),
            Factor(
                ("runtime", "nanotron", "whole_in_flight"),
                3.0,
                "tensors of the hidden size, undivided by tp, that a micro-batch in flight keeps [-]",
                1.0,
            ),
        ),
        layout,
        "https://huggingface.co/spaces/nanotron/ultrascale-playbook",
        memory_log_errors,
        STALLED,
    ),
    Stage(
        "nanotron, nearly full",
        source_runs("ultrascale-playbook"),
        (
            Factor(
                ("era", "nanotron", "full_message_seconds"),
                0.2,
                "time that a message between stages blocks on a device nearly full [s]",
                1.0,
            ),
        ),
        layout,
        "https://huggingface.co/spaces/nanotron/ultrascale-playbook",
        soft=STALLED,
    ),
)
"""Its stages."""
