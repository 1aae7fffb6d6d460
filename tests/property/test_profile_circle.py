"""What is measured is what is priced: a GPU of known rates is profiled, and prices are asked for its times.

The GPU's kernels take a launch and what they really move or multiply, written out here from nobody's tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from planner.calibrate.measured.files import Machine, profile_files
from planner.cost.case import Case, case_of
from planner.cost.estimate import estimate
from planner.cost.layer.block_cost import priced_layer
from planner.cost.layer.operators import Operator, Pricer
from planner.cost.layer.shapes import Shape
from planner.cost.step.step_end import optimizer_seconds
from planner.formulas.collectives import ring_seconds
from planner.formulas.ring_start import all_reduce_seconds
from planner.inputs.hardware import HardwareProfile
from planner.inputs.load_hardware import load_hardware
from planner.profile import check, timing
from planner.profile.benches import elementwise
from planner.profile.benches.family import Point
from planner.profile.check_kernels import Pair
from planner.profile.collectives import point_of, row_of
from planner.profile.nvml import Driver
from planner.profile.provenance import provenance_of
from planner.profile.session import Session, usable
from planner.profile.store import RawTable
from planner.units import MIB
from tests.cases import every
from tests.unit.cost_jobs import MODELS, any_runtime, job, plan_of
from tests.virtual_gpu import VirtualGpu

PEAK, BANDWIDTH = 989e12, 3.35e12
LASTS = 0.85
"""Share of the clock that products hold after a second. [-]"""

SIMPLE = {
    "copy": (4, 0.91, 2e-6),
    "norm": (4, 0.72, 3e-6),
    "residual": (6, 0.88, 2e-6),
    "gated": (10, 0.86, 4e-6),
    "rotary": (24, 0.8, 1e-5),
    "loss": (8, 0.6, 5e-6),
    "adam": (28, 0.83, 3e-6),
}
"""Bytes of an element that a kernel or chain really moves, share of the bandwidth, time of the launches."""

LINK, HOP = 333e9, 2e-6
DOWN, UP = 44e9, 55e9


def simple(kind: str, elements: float) -> float:
    moved, share, launch = SIMPLE[kind]
    return launch + moved * elements / (share * BANDWIDTH)


def product(m: float, n: float, k: float, lasts: float = 1.0) -> float:
    """80% of peak, half of it at k = 200; 90% of the bandwidth; 3 us to launch."""
    compute = 2 * m * n * (k + 200) / (0.8 * PEAK * lasts)
    memory = 2 * (m * k + n * k + m * n) / (0.9 * BANDWIDTH)
    return 3e-6 + float((compute**4 + memory**4) ** 0.25)


def cast_product(m: float, n: float, k: float, lasts: float = 1.0) -> float:
    """In 8 bit: 70% of twice the peak, half of it at k = 300, after a cast of 6 us and 5 bytes an element."""
    compute = 2 * m * n * (k + 300) / (0.7 * 2 * PEAK * lasts)
    memory = (m * k + n * k + 2 * m * n) / (0.9 * BANDWIDTH)
    cast = 6e-6 + 5 * m * k / (0.9 * BANDWIDTH)
    return 3e-6 + float((compute**4 + memory**4) ** 0.25) + cast


def attended(one: dict[str, float], backward: bool, lasts: float = 1.0) -> float:
    """Causal: 45% of peak forward on four FLOPs, 40% backward on ten; half of it at 300 and at 100 keys."""
    factor, rate, half = (10, 0.4, 100) if backward else (4, 0.45, 300)
    work = one["head_dim"] * (one["seq"] / 2 + half) * one["batch"] * one["heads"] * one["seq"]
    return float(1e-5 + factor * work / (rate * PEAK * lasts))


def grouped(rows: float, n: float, k: float, experts: float, lasts: float = 1.0) -> float:
    """Grouped products: those of one product with the rows of all experts, but each reads its weights."""
    compute = 2 * experts * rows * n * k / (0.75 * PEAK * lasts)
    memory = 2 * experts * (rows * k + n * k + rows * n) / (0.8 * BANDWIDTH)
    return float((compute**4 + memory**4) ** 0.25)


def law(one: Point) -> float:
    size = {name: float(number) for name, number in one.shape.items()}
    if one.bench == "elementwise":
        return simple(one.variant, size["rows"] * size["width"])
    if one.bench in ("gemm", "sustained"):
        own = cast_product if one.dtype == "fp8" else product
        return own(size["m"], size["n"], size["k"], LASTS if one.bench == "sustained" else 1.0)
    if one.bench == "attention":
        return attended(size, one.variant.endswith("backward"))
    if one.bench == "experts":
        each = size["tokens"] * size["topk"] / size["experts"]
        tiled, inner, hidden = float(np.ceil(each / 128) * 128), size["inter"], size["hidden"]
        around = 6 * each * size["experts"] * (hidden + inner) + 2 * size["tokens"] * hidden
        into = grouped(tiled, 2 * inner, hidden, size["experts"])
        return 4e-5 + into + grouped(tiled, hidden, inner, size["experts"]) + around / (0.5 * BANDWIDTH)
    if one.bench == "copies":
        rate = (
            9e9 if one.variant.endswith("pageable") else UP if one.variant.startswith("to-device") else DOWN
        )
        return 8e-6 + one.nbytes / rate
    return 2e-6


def collective_rows() -> Iterator[dict[str, Any]]:
    """Rings of eight ranks: so many hops, and every byte over the slowest link."""
    group = SimpleNamespace(ranks=tuple(range(8)), nodes=1)
    for nbytes in (2**12, 2**16, 2**20, 2**24, 2**27, 2**30):
        for name, passes in (("all_gather", 1), ("reduce_scatter", 1), ("all_reduce", 2)):
            seconds = passes * (7 * HOP + 7 / 8 * nbytes / LINK)
            yield row_of(point_of(name, group, nbytes), seconds=seconds)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def hardware(tmp_path_factory: pytest.TempPathFactory) -> HardwareProfile:
    """The profile of the GPU, measured with the default grid, and loaded."""
    gpu, folder = VirtualGpu(law), tmp_path_factory.mktemp("circle")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(timing, "time", SimpleNamespace(perf_counter=gpu.now))
        device = gpu.opened()
        table = RawTable(folder / "mine.raw.jsonl", provenance_of(device, Driver()).as_dict())
        assert Session(device, Driver(), table, 300.0, now=gpu.now).run(list(gpu.benches().values())) == []
    rows = [*usable(table.rows), *collective_rows()]
    about = Machine(device.name, device.memory, 132.0, table.head)
    for path, text in profile_files(folder / "mine.yaml", about, rows).texts.items():
        path.write_text(text, encoding="utf-8")
    return load_hardware(str(folder / "mine.yaml"))


def case_on(hardware: HardwareProfile, model: str = "dense", precision: str = "bf16", **traits: Any) -> Case:
    """Return a job on the machine, whose step loses nothing beside its kernels."""
    work = replace(job(MODELS[model], gpus=8, precision=precision), hardware=hardware)
    settings = {"compute_derate": 1.0 / hardware.pool.compute_rate, "attention": "flash-2"}
    return case_of(plan_of(work), work, any_runtime(**(settings | traits)))


def operators(case: Case, layer: str = "a") -> dict[str, Operator]:
    pricer = Pricer(case, plan_of(case.job))
    return {operator.name: operator for operator in priced_layer(pricer, layer).operators}


FUSED, CHAIN = True, False


@every(
    ("name", "fused", "kind"),
    [
        ("norm_0", FUSED, "norm"),
        ("residual_mlp", FUSED, "residual"),
        ("mlp_activation", CHAIN, "gated"),
        ("mlp_activation", FUSED, "residual"),
        ("rotary", CHAIN, "rotary"),
        ("rotary", FUSED, "copy"),
    ],
)
def test_a_memory_bound_operator_costs_what_its_kernel_took(
    hardware: HardwareProfile, name: str, fused: bool, kind: str
) -> None:
    """One kernel costs what another one that reads and writes as much took, not what a chain did.

    2,048 tokens of 2,048 hidden; 16 + 4 heads of 128 are turned; 8,192 inside the feed-forward.
    """
    case = case_on(hardware, fused_activation=fused, fused_rope=fused, rotary_chain="halves")
    elements = {"mlp_activation": 8192.0, "rotary": 20 * 128.0}.get(name, 2048.0) * 2048
    assert operators(case)[name].forward == pytest.approx(simple(kind, elements), rel=0.01)


def test_the_loss_costs_what_its_kernel_took(hardware: HardwareProfile) -> None:
    """Where the forward pass moves the 8 bytes that cross-entropy moves on logits of 4."""
    loss = operators(case_on(hardware, loss_traffic=24.0), "head")["loss"]
    assert loss.forward == pytest.approx(simple("loss", 2048 * 32000.0), rel=0.01)


def test_the_optimizer_costs_what_fused_adam_took(hardware: HardwareProfile) -> None:
    """Two bytes more than were measured: a weight of 16 bit is written beside master, states and gradient."""
    case = case_on(hardware, parameter_dtype="bf16", gradient_dtype="fp32")
    seconds, _ = optimizer_seconds(case, 1e9, 1.0)
    assert seconds == pytest.approx(30 / 28 * simple("adam", 1e9), rel=0.01)


def test_a_linear_layer_costs_what_its_three_products_took(hardware: HardwareProfile) -> None:
    """At the clock that lasts; the weight gradient is added to a buffer of 4 bytes in place."""
    case = case_on(hardware, fused_weight_gradient=True)
    out = operators(case)["mlp_out"]
    assert out.forward == pytest.approx(product(2048, 2048, 8192, LASTS), rel=0.02)
    added = 6 * 8192 * 2048 / case.kernels.memory_bandwidth
    both = product(2048, 8192, 2048, LASTS) + product(2048, 8192, 2048, LASTS)
    assert out.backward == pytest.approx(both + added, rel=0.02)


def test_a_linear_layer_in_fp8_costs_what_its_product_and_cast_took(hardware: HardwareProfile) -> None:
    out = operators(case_on(hardware, precision="fp8"))["mlp_out"]
    assert out.forward == pytest.approx(cast_product(2048, 2048, 8192, LASTS), rel=0.03)


@every("kind", ["flash-2", "flash-3"])
def test_attention_costs_what_pytorch_took(hardware: HardwareProfile, kind: str) -> None:
    """On Hopper too: no factor of an older kernel comes on top of the one that was measured."""
    attention = operators(case_on(hardware, attention=kind))["attention"]
    size = {"batch": 1.0, "heads": 16.0, "seq": 2048.0, "head_dim": 128.0}
    assert attention.forward == pytest.approx(attended(size, False, LASTS), rel=0.03)
    assert attention.backward == pytest.approx(attended(size, True, LASTS), rel=0.03)


def test_experts_cost_what_their_layer_took(hardware: HardwareProfile) -> None:
    """Two of eight experts for each of 2,048 tokens: 512 rows and half a tile each."""
    layer = operators(case_on(hardware, "experts", fused_activation=True))
    each = 512.0 + 64.0
    into, out = grouped(each, 4096, 2048, 8, LASTS), grouped(each, 2048, 2048, 8, LASTS)
    assert layer["experts_in"].forward == pytest.approx(into + 2e-5, rel=0.05)
    assert layer["experts_out"].forward == pytest.approx(out + 2e-5, rel=0.05)


def test_a_ring_costs_what_it_took(hardware: HardwareProfile) -> None:
    tiers = hardware.pool.tiers
    for nbytes in (64 * 1024.0, 16 * MIB, 1024 * MIB):
        once = 7 * HOP + 7 / 8 * nbytes / LINK
        assert ring_seconds(nbytes, 8.0, 1.0, tiers) == pytest.approx(once, rel=0.02)
        assert all_reduce_seconds(nbytes, 8.0, 1.0, tiers) == pytest.approx(2 * once, rel=0.02)


def test_a_copy_there_and_back_costs_what_it_took(hardware: HardwareProfile) -> None:
    """Prices know one rate for both directions, which were measured apart."""
    case = case_on(hardware)
    assert 2e9 / case.host_link == pytest.approx(1e9 / DOWN + 1e9 / UP, rel=0.01)


def timed(shape: Shape, name: str, added: float) -> Pair:
    """Times of an operator of a plan on this GPU; of memory-bound ones the forward pass alone is measured.

    ``added`` is what the addition of a weight's gradient to its buffer takes for an element. [s]
    """
    size = shape.sizes
    if shape.kind == "linear":
        rows, n, k = size["rows"], size["outputs"], size["inputs"]
        backward = product(rows, k, n, LASTS) + product(n, k, rows, LASTS) + added * n * k
        return Pair(product(rows, n, k, LASTS), backward)
    if shape.kind == "attention":
        whole = {
            "batch": size["batch"],
            "heads": size["heads"],
            "seq": size["seq"],
            "head_dim": size["qk_dim"],
        }
        return Pair(attended(whole, False, LASTS), attended(whole, True, LASTS))
    words = {"norm": "norm", "residual": "residual", "rotary": "rotary", "activation": "gated"}
    kind = next((own for word, own in words.items() if word in name), "copy")
    return Pair(simple(kind, size["elements"]), None)


def test_a_check_on_the_machine_that_was_measured_finds_no_difference(
    hardware: HardwareProfile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Products, attention and memory-bound operators forward, each asked by its shape; and Adam."""
    gpu = VirtualGpu(law)
    step = Point("elementwise", "adam", "fp32", {"rows": 2**18, "width": 1024}, 0.0, 28.0 * 2**28)
    monkeypatch.setattr(timing, "time", SimpleNamespace(perf_counter=gpu.now))
    monkeypatch.setitem(elementwise.OPERATORS, "adam", lambda *_: lambda: gpu.call(step))
    monkeypatch.setattr(check, "ADAM_ELEMENTS", {"cuda": 2**28})
    monkeypatch.setattr(check, "_memory", lambda *_: [])
    monkeypatch.setattr(check, "measured_pair", lambda name, shape, *_: timed(shape, name, added))
    case = case_on(hardware, fused_activation=False, fused_rope=False, rotary_chain="halves")
    # 2 bytes of gradient and 4 of the buffer are read, 4 written.
    added = 10 / case.kernels.memory_bandwidth
    priced = estimate(plan_of(case.job, tp=2, sequence_parallel=True), case.job, case.runtime)
    found = check.check_plan(priced, gpu.opened(), lambda *_: None)
    told = {
        (row.operator, row.step): row.measured / row.predicted
        for row in found.operators
        if row.measured is not None
    }
    assert {name for name, _ in told} >= {"qkv", "mlp_in", "mlp_out", "attention", "rotary", "norm_0"}
    # The runtime's loss is a chain of casts and more around the kernel that was measured.
    assert {key: ratio for key, ratio in told.items() if abs(ratio - 1) > 0.03 and key[0] != "loss"} == {}
    assert found.optimizer_ratio == pytest.approx(1.0, rel=0.01)
