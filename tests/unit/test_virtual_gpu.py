"""The code that runs on a GPU alone, run on one that is not there: clocks, refusals, time, and the fit."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import planner.profile.machine as machine
from planner.calibrate.measured.files import Machine, profile_files
from planner.profile import timing
from planner.profile.benches.family import Point
from planner.profile.collectives import _beside
from planner.profile.device import open_device
from planner.profile.health import check_free, memory_in_use
from planner.profile.nvml import Driver, open_driver
from planner.profile.provenance import provenance_of
from planner.profile.session import Session, notes, usable
from planner.profile.stopped import Stopped
from planner.profile.store import RawTable
from planner.profile.timing import EventClock, measure
from planner.units import GIB
from tests.cli.command import planner
from tests.gpu.unseen import mean_errors, points, predictor
from tests.virtual_gpu import OutOfMemory, VirtualGpu

PEAK, BANDWIDTH = 989e12, 3.35e12


def other_law(one: Point) -> float:
    """Times by forms that are not the planner's: whole waves, exponential approaches, sums of terms."""
    sizes = {name: float(size) for name, size in one.shape.items()}
    if one.bench in ("gemm", "sustained"):
        return _product(one, sizes["m"], sizes["n"], sizes["k"])
    if one.bench == "attention":
        share = {"cudnn": 0.62, "efficient": 0.3}.get(one.variant.split("-")[0], 0.48)
        share *= 0.82 if one.variant.endswith("backward") else 1.0
        waves = sizes["batch"] * sizes["heads"] * np.ceil(sizes["seq"] / 128) / 132
        lost = (np.ceil(waves) / waves) ** 0.4 / (1 - np.exp(-sizes["seq"] / 700))
        return float(6e-6 + one.flops / (PEAK * share) * lost)
    if one.bench == "experts":
        return one.flops / (PEAK * 0.55) + one.nbytes / (BANDWIDTH * 0.8) + 4e-5
    if one.bench == "copies":
        return 8e-6 + one.nbytes / (55e9 if one.variant.endswith("pinned") else 9e9)
    if one.bench == "elementwise":
        share = {"adam": 0.82, "rotary": 0.8, "loss": 0.7}.get(one.variant, 0.88)
        return 2.5e-6 * {"rotary": 5, "loss": 3}.get(one.variant, 1) + one.nbytes / (BANDWIDTH * share)
    return 2e-6


def _product(one: Point, m: float, n: float, k: float) -> float:
    peak = PEAK * (2 if one.dtype == "fp8" else 1)
    times = []
    for rows, columns, share in ((128, 256, 0.82), (256, 128, 0.81), (128, 128, 0.68)):
        waves = np.ceil(m / rows) * np.ceil(n / columns) / 132
        area = (0.55 * waves + 0.45 * np.ceil(waves)) * 132 * rows * columns
        times.append(area * 2 * k / (peak * share) / (1 - np.exp(-k / 420)))
    moved = one.nbytes / (BANDWIDTH * 0.86)
    seconds = max(min(times), moved) + 0.18 * min(min(times), moved) + 3.5e-6
    seconds *= 1.14 if one.bench == "sustained" else 1 + 0.14 * (1 - np.exp(-seconds / 6e-3))
    return float(seconds + (11 * m * k / (BANDWIDTH * 0.85) + 1.8e-5) * (one.dtype == "fp8"))


@pytest.fixture
def virtual(monkeypatch: pytest.MonkeyPatch) -> VirtualGpu:
    """A GPU by `other_law`, on whose clocks everything is timed."""
    gpu = VirtualGpu(other_law, noise=0.015)
    monkeypatch.setattr(timing, "time", SimpleNamespace(perf_counter=gpu.now))
    return gpu


def session(gpu: VirtualGpu, folder: Path, minutes: float = 5.0, driver: Driver | None = None) -> Session:
    device = gpu.opened()
    asked = driver or Driver()
    table = RawTable(folder / "mine.raw.jsonl", provenance_of(device, Driver()).as_dict())
    return Session(device, asked, table, 60 * minutes, now=gpu.now)


# The clock


@pytest.mark.parametrize("seconds", [1e-6, 3e-6, 5e-5, 2e-3])
@pytest.mark.parametrize("host", [5e-6, 6e-5, 4e-4])
def test_the_host_is_not_timed_however_slowly_it_queues(
    virtual: VirtualGpu, seconds: float, host: float
) -> None:
    """A call of 1 us that takes the host 400 us to queue still takes 1 us on the device."""
    virtual.noise, virtual.queue_seconds, virtual.law = 0.0, host, lambda _point: seconds
    one = Point("gemm", "product", "bf16", {"m": 1}, 1.0, 1.0)
    clock = EventClock(virtual.opened())
    assert measure([lambda: virtual.call(one)], clock, 0.03).seconds == pytest.approx(seconds, rel=1e-6)


def test_calls_that_wait_for_the_device_are_timed_without_sleeping_for_ever(virtual: VirtualGpu) -> None:
    """A copy from ordinary memory returns when it is done, and cannot be queued ahead."""
    virtual.noise, virtual.law = 0.0, lambda _point: 1e-3
    one = Point("copies", "to-host-pageable", "bytes", {"bytes": 1}, 0.0, 1.0)
    timed = measure([lambda: virtual.call(one, waits=True)], EventClock(virtual.opened()), 0.03)
    assert timed.seconds == pytest.approx(1e-3, rel=0.02)
    assert virtual.host < 0.3


def test_a_held_point_leaves_the_device_no_rest(virtual: VirtualGpu) -> None:
    """Beside a second of work the device idles for less than a fiftieth of it."""
    virtual.noise, virtual.law = 0.0, lambda _point: 1e-3
    busy = 0.0
    one = Point("sustained", "product", "bf16", {"m": 1}, 1.0, 1.0)

    def call() -> None:
        nonlocal busy
        busy += 1e-3
        virtual.call(one)

    measure([call], EventClock(virtual.opened()), 0.03, hold=1.0)
    assert busy > 1.1
    assert busy / virtual.host > 0.98


# The whole grid


def test_the_default_grid_ends_in_time_and_predicts_what_it_has_not_seen(
    virtual: VirtualGpu, tmp_path: Path
) -> None:
    run = session(virtual, tmp_path)
    assert run.run(list(virtual.benches().values())) == []
    assert virtual.host < 240, "a minute is left for loading kernels and for the fit"
    kinds = Counter((row["bench"], row["dtype"]) for row in run.table.measured())
    assert min(kinds["gemm", "bf16"], kinds["gemm", "fp8"]) > 300
    device, out = virtual.opened(), tmp_path / "mine.yaml"
    about = Machine(device.name, device.memory, 132.0, run.table.head)
    files = profile_files(out, about, usable(run.table.rows))
    for path, text in files.texts.items():
        path.write_text(text, encoding="utf-8")
    from planner.inputs.load_hardware import load_hardware

    accelerator = load_hardware(str(out)).pool.accelerator
    own = predictor(accelerator, Path(accelerator.curves))
    rows = [
        {
            "bench": one.bench, "variant": one.variant, "dtype": one.dtype, "seconds": other_law(one),
            "predicted": own.seconds(one), "shipped": None,
        }
        for one in points(device)
    ]  # fmt: skip
    errors = {row["what"]: row["mean"] for row in mean_errors(rows)}
    assert errors["products bf16"] < 0.04
    assert errors["products fp8"] < 0.04
    assert errors["attention forward"] < 0.05
    assert errors["attention backward"] < 0.05
    assert errors["memory-bound operators"] < 0.07


def test_the_time_bounds_the_work_and_a_second_run_goes_on(virtual: VirtualGpu, tmp_path: Path) -> None:
    benches = list(virtual.benches().values())
    first = session(virtual, tmp_path, minutes=0.2)
    missing = first.run(benches)
    assert virtual.host < 0.2 * 60 + 3
    assert missing
    assert any("run again to go on" in note for note in notes(first.table.rows, missing))
    kept = [row["key"] for row in first.table.rows]
    second = session(virtual, tmp_path, minutes=0.3)
    assert second.run(benches) == []
    keys = [row["key"] for row in second.table.rows]
    assert keys[: len(kept)] == kept
    assert len(keys) == len(set(keys))


def test_the_command_measures_fits_and_writes_a_profile(
    virtual: VirtualGpu, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("planner.profile.device.torch_module", lambda: virtual.torch)
    monkeypatch.setattr(machine, "benches", virtual.benches)
    monkeypatch.setattr(machine, "Session", partial(Session, now=virtual.now))
    monkeypatch.setattr(machine, "open_driver", lambda _uuid: Driver())
    monkeypatch.chdir(tmp_path)
    done = planner(
        "profile", "--device", "cuda", "--out", "mine.yaml", "--minutes", "0.5", "--format", "json"
    )
    assert done.code == 0, done.err
    curves = {fit["curve"]: fit["held_out_error"] for fit in done.json["fits"]}
    assert curves["gemm bf16"] < 0.04
    assert {"gemm fp8", "attention bf16 128", "attention bf16 128 backward", "experts bf16"} <= set(curves)
    assert done.json["provenance"]["nccl"] == "2.29.1"
    asked = (
        "llama3-8b",
        "--hardware",
        "mine.yaml",
        "--gpus",
        "8",
        "--seq-len",
        "4096",
        "--global-batch",
        "8",
    )
    priced = planner("estimate", *asked, "--format", "json")
    assert priced.code in (0, 1), priced.err
    assert priced.json["step_time_s"] > 0
    found = planner("search", *asked, "--format", "json", "--top", "1")
    assert found.code == 0, found.err
    (best,) = found.json["plans"]
    axes = [
        f"--{name}={best['plan'][name]}"
        for name in ("tp", "pp", "cp", "micro_batch", "zero", "recompute", "offload")
    ]
    axes += ["--sequence-parallel"] * best["plan"]["sequence_parallel"]
    chosen = [f"--set={name}={value}" for name, value in best["settings"].items()]
    again = planner(
        "estimate", *asked, *chosen, *(axis.replace("_", "-", 1) for axis in axes), "--format", "json"
    )
    assert again.json["step_time_s"] == pytest.approx(best["step_time_s"], rel=0.02)


# What goes wrong


def test_memory_that_runs_out_once_is_tried_again_with_one_input_set(
    virtual: VirtualGpu, tmp_path: Path
) -> None:
    virtual.fails = {1: OutOfMemory("CUDA out of memory. Tried to allocate 2.00 GiB")}
    run = session(virtual, tmp_path)
    bench = virtual.benches()["gemm"]
    row = run.keep(bench.coarse(run.device)[0], bench)
    assert row["seconds"] > 0
    assert virtual.emptied >= 1


def test_memory_that_runs_out_in_the_middle_of_the_grid_costs_its_points_alone(
    virtual: VirtualGpu, tmp_path: Path
) -> None:
    usual = virtual.law

    def law(one: Point) -> float:
        if one.nbytes > 0.5 * GIB:
            raise OutOfMemory("CUDA out of memory. Tried to allocate 20.00 GiB\nof which")
        return usual(one)

    virtual.law = law
    run = session(virtual, tmp_path, minutes=0.3)
    run.run([virtual.benches()["gemm"]])
    refused = [row for row in run.table.rows if "refused" in row]
    assert refused
    assert all(row["bytes"] > 0.5 * GIB for row in refused)
    assert {row["refused"] for row in refused} == {"CUDA out of memory. Tried to allocate 20.00 GiB"}
    assert len(run.table.measured()) > len(refused)


def test_a_type_that_no_kernel_takes_costs_its_points_alone(virtual: VirtualGpu, tmp_path: Path) -> None:
    usual, refused = virtual.prepare, 0
    errors = (ValueError, NotImplementedError, AssertionError, KeyError)

    def prepare(one: Point, device: Any) -> Any:
        nonlocal refused
        if one.dtype == "fp8":
            refused += 1
            raise errors[refused % 4]("no such kernel")
        return usual(one, device)

    bench = replace(virtual.benches()["gemm"], prepare=prepare)
    run = session(virtual, tmp_path, minutes=0.2)
    run.run([bench])
    assert {row["dtype"] for row in run.table.refused()} == {"fp8"}
    assert refused >= 4
    assert {"bf16", "fp16"} <= {row["dtype"] for row in run.table.measured()}
    assert any("gemm product fp8 were refused" in note for note in notes(run.table.rows, []))


def test_a_device_that_breaks_stops_the_run_and_the_next_one_passes_the_point(
    virtual: VirtualGpu, tmp_path: Path
) -> None:
    """After an illegal access nothing works in this process: no other point may count as refused."""
    virtual.fails = {900: RuntimeError("CUDA error: an illegal memory access was encountered\nCUDA kernel")}
    virtual.broken = ""
    benches = [virtual.benches()[name] for name in ("gemm", "elementwise")]
    run = session(virtual, tmp_path, minutes=0.2)
    usual = virtual.call

    def call(one: Point, waits: bool = False) -> None:
        try:
            usual(one, waits)
        except RuntimeError:
            virtual.broken = "CUDA error: an illegal memory access was encountered"
            raise

    virtual.call = call  # type: ignore[method-assign]
    with pytest.raises(Stopped, match=r"does not work any more after .*illegal memory.*kept in .*raw.jsonl"):
        run.run(benches)
    rows = RawTable(tmp_path / "mine.raw.jsonl", {}).rows
    assert sum("refused" in row for row in rows) == 1
    assert "refused" in rows[-1]
    virtual.broken, virtual.fails = "", {}
    again = session(virtual, tmp_path, minutes=0.2)
    again.run(benches)
    assert len(again.table.rows) > len(rows)
    assert [row["key"] for row in again.table.rows].count(rows[-1]["key"]) == 1


def test_points_of_a_hot_moment_are_marked_and_left_out(virtual: VirtualGpu, tmp_path: Path) -> None:
    class Library:
        NVMLError = Exception
        NVML_CLOCK_SM = 1

        def __getattr__(self, name: str) -> Any:
            if name != "nvmlDeviceGetCurrentClocksEventReasons":
                raise AttributeError(name)
            return lambda _handle: 0x40 if 1.0 < virtual.host < 2.0 else 0

    run = session(virtual, tmp_path, minutes=0.1, driver=Driver(Library(), object()))
    missing = run.run([virtual.benches()["gemm"]])
    hot = [row for row in run.table.rows if row.get("slowdowns")]
    assert hot
    assert all(row not in usable(run.table.rows) for row in hot)
    assert any("ran throttled (hardware thermal slowdown)" in note for note in notes(run.table.rows, missing))


def test_a_slice_is_known_by_its_name_and_by_its_uuid(
    virtual: VirtualGpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = replace(virtual.opened(), name="NVIDIA H100 80GB HBM3 MIG 1g.10gb")
    with pytest.raises(Stopped, match="cut into MIG slices"):
        check_free(named, Driver())

    class NVMLError(Exception):
        pass

    def by_uuid(name: str) -> str:
        if not name.startswith("MIG-"):
            raise NVMLError
        return name

    library = SimpleNamespace(NVMLError=NVMLError, nvmlInit=lambda: None, nvmlDeviceGetHandleByUUID=by_uuid)
    monkeypatch.setattr("planner.profile.nvml.importlib.import_module", lambda _name: library)
    driver = open_driver("8f6b1a9c-0000-0000-0000-000000000000")
    assert driver.is_sliced()
    with pytest.raises(Stopped, match="cut into MIG slices"):
        check_free(virtual.opened(), driver)


def test_a_gpu_in_use_is_known_where_the_driver_names_nobody(virtual: VirtualGpu) -> None:
    """Inside a container the driver hides the processes of others, and only the memory tells."""
    check_free(virtual.opened(), Driver())
    torch = virtual.torch
    torch.cuda.mem_get_info = lambda _index: (30 * GIB, 79 * GIB)
    torch.cuda.memory_reserved = lambda _index: 2 * GIB
    busy = replace(virtual.opened(), torch=torch)
    assert memory_in_use(busy) == 47 * GIB
    with pytest.raises(Stopped, match=r"is busy: 47 GiB of its memory are in use by processes"):
        check_free(busy, Driver())


def test_a_driver_that_does_not_start_says_why(virtual: VirtualGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = virtual.torch
    torch.cuda.is_available = lambda: False

    def init() -> None:
        raise RuntimeError(
            "Unexpected error from cudaGetDeviceCount(): Error 802: system not yet initialized\n"
        )

    torch.cuda.init = init
    monkeypatch.setattr("planner.profile.device.torch_module", lambda: torch)
    with pytest.raises(Stopped, match=r"sees no GPU .*Error 802: system not yet initialized"):
        open_device("cuda")


def test_products_beside_a_collective_wait_for_themselves_alone(virtual: VirtualGpu) -> None:
    """The collective lasts 5 ms on a stream of its own, ten products 1.2 ms: they are not charged for it."""
    done_at = 0.0

    def collective(_later: bool) -> Any:
        nonlocal done_at
        done_at = virtual.host + 5e-3
        handle = SimpleNamespace(is_completed=lambda: virtual.host >= done_at)
        handle.wait = lambda: setattr(virtual, "host", max(virtual.host, done_at))
        return handle

    seconds, covered = _beside(virtual.opened(), collective, lambda: virtual.queue(1.2e-4), 10)
    assert covered
    assert seconds == pytest.approx(1.2e-4, rel=0.15)
    short, covered = _beside(virtual.opened(), collective, lambda: virtual.queue(1.2e-4), 100)
    assert short == pytest.approx(1.2e-4, rel=0.05)
    assert not covered
