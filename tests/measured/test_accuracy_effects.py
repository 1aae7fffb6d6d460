"""What the tables show one at a time comes out one at a time: pairs of runs that differ in one column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from tests.cases import every
from tests.measured.matched import Effect, Pair, Value, biases, effect, peak_memory, step_seconds

SWEEP = "aleph-alpha-layouts"
BUBBLE = "zero-bubble"
BLOOM = "bigscience-bloom-prequel"
TITAN = "torchtitan"
COMPILED = "torch.compile on"
BRIDGE = "megatron-bridge"
ABLATIONS = "bridge-ablations"
CONTAINER = "megatron-bridge, NeMo container"
GB200, GB300, H100 = ({"gpu": name} for name in ("gb200-186gb", "gb300", "h100-80gb-sxm"))

OTHER_CODE = (
    "framework", "tp", "pp", "vpp", "dp", "micro_batch", "precision", "schedule", "seq_parallel",
    "flash_attn", "recompute",
)  # fmt: skip
"""Columns in which two codes differ that train the same model on as many accelerators."""

OTHER_SOURCE = ("source", "framework", "overlap", "vpp", "schedule", "model", "seq_parallel")
"""Columns in which two sources differ that ran the same layout."""


@dataclass(frozen=True)
class Case:
    """A change of one column, and what it does.

    Parameters
    ----------
    source, column, change, free
        As in `effect`.
    pairs : int
        Rows that show it.
    measured : float
        Their median ratio. [-]
    tolerance : float
        By which the predicted ratio may differ. [-]
    missed : str
        What is predicted instead where it differs by more.
    where : mapping
        Columns to the value that rows must have.
    """

    source: str
    column: str
    change: tuple[object, object]
    free: tuple[str, ...]
    pairs: int
    measured: float
    tolerance: float
    missed: str = ""
    where: Mapping[str, object] = field(default_factory=dict)


TIMES = (
    Case(SWEEP, "recompute", ("none", "every-layer"), (), 21, 1.27, 0.03),
    Case(SWEEP, "fused_norm", (1, 0), (), 7, 1.16, 0.04),
    Case(SWEEP, "seq_parallel", (0, 1), (), 10, 0.95, 0.03),
    Case(SWEEP, "flash_attn", (2, 1), (), 28, 1.03, 0.02),
    Case(SWEEP, "flash_attn", (2, 0), (), 11, 1.09, 0.02),
    Case(SWEEP, "micro_batch", (1, 2), (), 41, 0.975, 0.02),
    Case(SWEEP, "micro_batch", (2, 4), (), 26, 0.99, 0.02),
    Case(SWEEP, "tp", (1, 2), ("dp",), 29, 1.09, 0.02),
    Case(SWEEP, "tp", (2, 4), ("dp",), 29, 1.14, 0.02),
    Case(SWEEP, "tp", (1, 4), ("dp",), 14, 1.15, 0.045),
    Case(SWEEP, "pp", (1, 2), ("dp", "schedule", "vpp"), 31, 0.95, 0.03),
    Case(SWEEP, "pp", (2, 4), ("dp", "schedule", "vpp"), 36, 0.97, 0.035),
    Case(SWEEP, "num_gpus", (64, 256), ("dp",), 10, 0.305, 0.02),
    Case(BUBBLE, "schedule", ("1f1b", "interleaved"), ("vpp",), 12, 0.935, 0.045),
    Case(BUBBLE, "schedule", ("1f1b", "zb-1p"), (), 12, 0.916, 0.03),
    Case(BUBBLE, "schedule", ("1f1b", "zb-2p"), (), 12, 0.829, 0.03),
    Case(TITAN, "precision", ("bf16", "fp8"), (), 6, 0.779, 0.03),
    Case(TITAN, "overlap", ("torch.compile off", "torch.compile on"), (), 2, 0.86, 0.02),
    Case(TITAN, "overlap", (f"{COMPILED}; async TP off", f"{COMPILED}; async TP on"), (), 2, 0.91, 0.03),
    Case(ABLATIONS, "overlap", ("moe a2a off", "moe a2a on"), (), 1, 0.85, 0.05),
    Case(ABLATIONS, "recompute", ("selective:core_attn", "selective:mlp"), (), 1, 1.186, 0.02),
    Case(ABLATIONS, "recompute", ("selective:mlp", "selective:mlp+core_attn"), (), 1, 1.012, 0.02),
    Case(ABLATIONS, "pp", (4, 8), ("dp",), 1, 1.054, 0.02),
    Case(
        ABLATIONS, "tp", (4, 8), ("dp",), 1, 1.384, 0.05,
        missed="twice the tensor-parallel ranks made steps 38% slower, and are said to make them 21% slower",
    ),
    # Of a release with one scale for each tensor and one for blocks of 32, in dense models but for two rows.
    Case(BRIDGE, "precision", ("fp8", "mxfp8"), (), 10, 1.044, 0.03),
    Case(BRIDGE, "precision", ("mxfp8", "nvfp4"), (), 4, 0.796, 0.08, where=GB200),
    Case(
        BRIDGE, "precision", ("mxfp8", "nvfp4"), (), 3, 0.667, 0.08, where=GB300,
        missed="4 bits made steps a third shorter, and are said to make them a quarter shorter",
    ),
    Case(BRIDGE, "precision", ("bf16", "mxfp8"), (), 1, 0.883, 0.07, where=GB300),
    # Quantised experts are slower on H100: bf16 with overlap off, against the recipe of 26.06.
    Case(
        "", "precision", ("bf16", "fp8"), OTHER_SOURCE, 1, 1.2, 0.08, where={**H100, "num_gpus": 16},
        missed="8 bits made steps 20% longer, and are said to make them 31% longer: the one run in bf16 is "
        "said a tenth too fast",
    ),
    # What came with 26.06 on Blackwell: a graph of the whole iteration, overlap, and fused experts.
    Case(
        BRIDGE, "framework", (f"{CONTAINER} 26.04.01", f"{CONTAINER} 26.06"), ("overlap",), 3, 0.70, 0.08,
        where={"precision": "mxfp8"},
    ),
    # And with 26.02.01 on H100: a fused dispatcher in place of an all-to-all beside compute.
    Case(
        BRIDGE, "framework", (f"{CONTAINER} 26.02", f"{CONTAINER} 26.02.01"), ("overlap",), 1, 0.564, 0.05,
        missed="steps became 44% shorter, and are said to become 40% shorter: the older run is said as "
        "measured, the newer 6% too long",
        where={**H100, "experts": 128},
    ),
    Case(BRIDGE, "global_batch", (4096, 15360), (), 1, 3.70, 0.02),
    Case(
        "litgpt", "zero", ("0", "3"), (), 2, 0.87, 0.05,
        missed="sharding made steps 6% and 20% faster there, and is said to make them 8% and 6% faster: "
        "sharded steps are whole, others the last of 16 micro-batches by the host's clock, with its queue",
    ),
    Case("megatron-sc21", "zero", ("0", "3"), OTHER_CODE, 5, 1.69, 0.1),
)  # fmt: skip
MEMORY = (
    Case(BUBBLE, "schedule", ("1f1b", "interleaved"), ("vpp",), 12, 1.28, 0.03),
    Case(BUBBLE, "schedule", ("1f1b", "zb-1p"), (), 12, 1.05, 0.03),
    Case(BUBBLE, "schedule", ("1f1b", "zb-2p"), (), 12, 1.76, 0.03),
    Case(BLOOM, "micro_batch", (1, 2), (), 9, 1.20, 0.04),
    Case(BLOOM, "micro_batch", (2, 4), (), 16, 1.28, 0.05),
    Case(
        BLOOM, "micro_batch", (4, 8), (), 5, 1.38, 0.03,
        missed="memory grows by 38%, and is said to grow by 47%: what is held stops growing earlier",
    ),
    Case(BLOOM, "tp", (4, 8), ("dp", "pp"), 5, 0.79, 0.03),
)  # fmt: skip


def cases(table: tuple[Case, ...], value: Value) -> list[object]:
    """Return the cases of a table for a parametrised test; a miss is expected to fail."""
    return [
        pytest.param(
            case,
            value,
            id="-".join(map(str, (case.source, case.column, case.change[1], *case.where.values()))),
            marks=[pytest.mark.xfail(strict=True, reason=case.missed)] if case.missed else [],
        )
        for case in table
    ]


@pytest.mark.parametrize(("case", "value"), [*cases(TIMES, step_seconds), *cases(MEMORY, peak_memory)])
def test_a_change_has_the_measured_effect(case: Case, value: Value) -> None:
    found = effect(case.source, case.column, case.change, case.free, value, case.where)
    assert abs(found.error) <= case.tolerance


@every(("table", "value"), [(TIMES, step_seconds), (MEMORY, peak_memory)])
def test_the_tables_show_what_is_said_of_them(table: tuple[Case, ...], value: Value) -> None:
    for case in table:
        found = effect(case.source, case.column, case.change, case.free, value, case.where)
        assert len(found.pairs) == case.pairs, case
        assert found.measured == pytest.approx(case.measured, rel=0.02), case


@every(
    ("column", "change", "free"),
    [
        ("recompute", ("none", "every-layer"), ()),
        ("fused_norm", (1, 0), ()),
        ("seq_parallel", (0, 1), ()),
        ("tp", (1, 2), ("dp",)),
        ("tp", (2, 4), ("dp",)),
        ("num_gpus", (64, 256), ("dp",)),
    ],
)
def test_nearly_every_pair_of_the_sweep_goes_the_right_way(
    column: str, change: tuple[object, object], free: Sequence[str]
) -> None:
    assert effect(SWEEP, column, change, free).agreeing() >= 0.8


@every(
    ("source", "column", "spread"),
    [
        (SWEEP, "tp", 0.02),
        ("megatron-readme-2020-09", "tp", 0.05),
        ("megatron-readme-a100-2021-04", "tp", 0.06),
        # 0.04 until pp_exposed was fitted, which takes a sixth of this source's error away; 0.043 is reached.
        (BLOOM, "tp", 0.045),
        (SWEEP, "num_gpus", 0.01),
    ],
)
def test_no_degree_makes_the_cost_model_grow_more_hopeful(source: str, column: str, spread: float) -> None:
    found = [bias for _, bias in biases(source, column)]
    assert len(found) >= 2
    assert max(found) - min(found) <= spread


def test_an_effect_is_counted_as_a_hand_would() -> None:
    found = Effect((Pair(("a", "b"), 1.2, 1.1), Pair(("c", "d"), 1.4, 1.3), Pair(("e", "f"), 0.9, 1.2)))
    assert (found.measured, found.predicted) == (1.2, 1.2)
    assert found.agreeing() == pytest.approx(2 / 3)
