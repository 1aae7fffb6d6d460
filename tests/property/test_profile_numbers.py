"""Each number of a hardware profile moves a price or is documented as informative; odd ones are refused."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from planner.api import Job, Workload, estimate_plan, load_model, load_runtime
from planner.errors import ImpossiblePrice, InputError
from planner.inputs.build import build
from planner.inputs.hardware import HardwareProfile
from planner.inputs.load_hardware import load_hardware
from tests.cases import every

Path_ = tuple[str | int, ...]

INFORMATIVE = {
    ("accelerator", "memory"),
    ("accelerator", "l2"),
    ("accelerator", "peak", "tf32"),
    ("accelerator", "peak", "fp32"),
    ("accelerator", "matmul_efficiency"),
    ("node", "scaleup", "ramp"),
    ("node", "host_memory"),
    ("node", "nvme"),
    ("node", "nvme_read"),
    ("node", "nvme_write"),
}
"""Fields that price nothing here; `docs/reference/hardware.md` says so of each."""

PLANS: tuple[tuple[str, int, dict[str, Any], dict[str, Any]], ...] = (
    ("megatron-lm", 16, {"precision": "bf16"}, {"tp": 2, "zero": 1, "sequence_parallel": True}),
    ("megatron-lm", 16, {"precision": "fp16"}, {"tp": 1, "pp": 8, "zero": 1}),
    ("megatron-lm", 16, {"precision": "fp8"}, {"tp": 8, "zero": 1}),
    ("fsdp", 8, {"precision": "bf16", "seq_len": 256}, {"zero": 3}),
    ("nanotron", 8, {"precision": "bf16"}, {"tp": 8, "micro_batch": 4}),
    ("deepspeed", 16, {"precision": "bf16"}, {"zero": 3, "offload": "optimizer", "recompute": "full"}),
)
"""Jobs that between them use all links, all formats and the host."""


def leaves(value: Any, path: Path_ = ()) -> Iterator[Path_]:
    """Yield the places of all numbers of a profile as JSON."""
    if isinstance(value, dict):
        if set(value) == {"value", "source", "standing"}:
            yield path
        else:
            for key, inner in value.items():
                yield from leaves(inner, (*path, key))
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from leaves(inner, (*path, place))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path


def profile_of(name: str) -> dict[str, Any]:
    """Return a cluster with all its parts under their shipped names, shares included."""
    raw = load_hardware(name).model_dump(mode="json", exclude_none=True)
    for share in ("compute_share", "scaleup_share", "network_share"):
        raw["pools"][0][share] = 0.5
    return raw


def changed(raw: dict[str, Any], path: Path_, factor: float) -> dict[str, Any]:
    """Return a profile with one number multiplied."""
    other = copy.deepcopy(raw)
    part: Any = other
    for key in path[:-1]:
        part = part[key]
    old = part[path[-1]]
    if isinstance(old, dict):
        number, _, unit = old["value"].partition(" ")
        part[path[-1]] = old | {"value": f"{float(number.rstrip('%')) * factor} {unit}".strip()}
    else:
        part[path[-1]] = type(old)(old * factor)
    return other


def prices(raw: dict[str, Any]) -> list[object]:
    """Return time, memory, money and energy of all plans."""
    hardware = build(HardwareProfile, raw, "profile")
    told: list[object] = []
    for runtime, gpus, work, axes in PLANS:
        workload = Workload.model_validate({"seq_len": 4096, "global_batch": 64} | work)
        job = Job(model=load_model("llama3-8b"), hardware=hardware, gpus=gpus, workload=workload)
        try:
            answer = estimate_plan(job, runtime, **axes)
        except InputError as error:
            told.append(str(error))
            continue
        told.append((answer.step, answer.peak, answer.capacity, answer.bill, len(answer.violations)))
    return told


RAW = profile_of("dgx-h100")
PLACES = list(leaves(RAW["pools"][0]))


@pytest.fixture(scope="module")
def usual() -> list[object]:
    return prices(RAW)


@every("place", PLACES, ids=lambda place: ".".join(map(str, place)))
def test_each_number_moves_a_price_though_all_names_are_shipped_ones(
    place: Path_, usual: list[object]
) -> None:
    moved = False
    for factor in (0.5, 2.0):
        try:
            moved |= prices(changed(RAW, ("pools", 0, *place), factor)) != usual
        except InputError:
            continue
    assert moved == (place not in INFORMATIVE)


def test_what_prices_nothing_is_documented() -> None:
    text = (Path(__file__).parents[2] / "docs" / "reference" / "hardware.md").read_text(encoding="utf-8")
    told = text.partition("Priced by none")[2].partition("\n\n")[0]
    assert told
    for place in INFORMATIVE:
        assert f"`{place[-1]}`" in told, place


def test_a_renamed_accelerator_costs_what_the_same_numbers_cost_under_a_shipped_name() -> None:
    """A tenth of the peak: the slower device is the same whatever it is called."""
    slow = copy.deepcopy(RAW)
    for peak in slow["pools"][0]["accelerator"]["peak"].values():
        peak["value"] = f"{float(peak['value'].split()[0]) / 10} TFLOP/s"
    renamed = copy.deepcopy(slow)
    renamed["pools"][0]["accelerator"] |= {"name": "mine", "curves": "h100-80gb-sxm"}
    steps = [float(found[0]) for raw in (slow, renamed) for found in prices(raw)[:1]]  # type: ignore[index]
    assert steps[0] == pytest.approx(steps[1], rel=1e-6)


@every(
    ("place", "text"),
    [
        ("compute_share", 7),
        ("compute_share", "700%"),
        ("compute_share", 0),
        ("scaleup_share", 1.4),
        ("network_share", 1e9),
        ("accelerator.training_share", 5),
        ("accelerator.memory_visible", "400 GiB"),
        ("accelerator.memory_driver", "20 GiB"),
        ("accelerator.power", "0 W"),
        ("accelerator.compute_capability", -9),
        ("accelerator.memory_bandwidth", "0 B/s"),
        ("node.scaleup.latency", "1e9 s"),
        ("node.scaleup.ramp", "2 s"),
        ("node.scaleup.pair_bandwidth", "451 GB/s"),
        ("network.latency", "1 h"),
        ("network.efficiency", 1.01),
        ("accelerator.price", "-1 USD/h"),
    ],
)
def test_a_number_that_cannot_be_is_refused_where_it_stands(place: str, text: object, tmp_path: Path) -> None:
    raw = copy.deepcopy(RAW)
    *parents, last = place.split(".")
    part = raw["pools"][0]
    for key in parents:
        part = part[key]
    part[last] = text
    path = tmp_path / "odd.yaml"
    path.write_text(yaml.safe_dump(raw), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        load_hardware(str(path))
    assert [fault.where for fault in caught.value.problems] == [f"{path}: pools[0].{place}"]


@every(("share", "value"), [("compute_share", 1.2), ("network_share", 1.1), ("scaleup_share", 1.2)])
def test_a_site_may_be_better_than_usual_within_its_peaks(share: str, value: float) -> None:
    raw = copy.deepcopy(RAW)
    raw["pools"][0][share] = value
    build(HardwareProfile, raw, "profile")


def test_a_price_above_the_peak_is_an_internal_error() -> None:
    hardware = load_hardware("dgx-h100")
    pool = hardware.pool.model_copy(update={"compute_share": 7.0})
    odd = hardware.model_copy(update={"pools": (pool,)})
    job = Job(model=load_model("llama3-8b"), hardware=odd, gpus=16, workload=Workload(global_batch=64))
    with pytest.raises(
        ImpossiblePrice, match=r"internal error: this price has an MFU of 1\.\d+, above"
    ) as caught:
        estimate_plan(job, load_runtime("megatron-lm", job, host_layer_seconds=0.0), tp=2)
    assert caught.value.exit_code == 70
