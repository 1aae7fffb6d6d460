"""Measuring without torch: what is measured next, how samples count, what is kept, what is refused."""

from __future__ import annotations

import errno
import itertools
import json
import math
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from planner.calibrate.measured.curves import FEWEST
from planner.errors import InputError
from planner.inputs.load_hardware import load_accelerator
from planner.profile.benches import benches
from planner.profile.benches.family import Bench, Point, scattered
from planner.profile.check import same_product, version_notes
from planner.profile.collectives import sizes, straggler_note
from planner.profile.device import Device, open_device, read_device, torch_module
from planner.profile.health import check_free, check_works, refuse_slow
from planner.profile.machine import chosen
from planner.profile.nvml import Driver, PowerReading, open_driver
from planner.profile.provenance import differences
from planner.profile.ranks import RankGroup, Ranks, group_ranks
from planner.profile.sampling import (
    BASIS,
    FARTHEST,
    FLOOR,
    NEIGHBOURS,
    Adaptive,
    Timed,
    basis_first,
    coordinates,
    interleaved,
)
from planner.profile.session import Session, notes, usable
from planner.profile.stopped import Stopped
from planner.profile.store import SCHEMA, RawTable
from planner.profile.timing import Call, HostClock, measure, summary
from planner.units import GIB
from tests.cases import every
from tests.helpers import run_planner

HEAD = {"device": "X", "torch": "2.13.0", "driver": "580.1", "cuda": "13.0", "nccl": "2.29"}


def point(size: int, family: str = "f") -> Point:
    return Point("gemm", family, "bf16", {"m": size, "n": size}, 2.0 * size**2, 1.0)


def processor(**changes: Any) -> Device:
    fields = {
        "kind": "cpu", "index": 0, "name": "cpu", "memory": 64 * GIB, "cache": 1.0, "multiprocessors": 4,
        "capability": 0.0, "torch": None,
    }  # fmt: skip
    return Device(**(fields | changes))


class Ticking:
    """A clock whose calls take the times that it is given, in turn."""

    def __init__(self, times: Sequence[float]) -> None:
        self.times = itertools.cycle(times)
        self.asked: list[tuple[int, int]] = []

    def samples(self, calls: Sequence[Call], repeats: int, count: int) -> list[float]:
        self.asked.append((repeats, count))
        for call in calls:
            call()
        return [next(self.times) for _ in range(count)]


# What counts


def test_the_median_stands_and_what_lies_far_off_is_counted() -> None:
    timing = summary([1.0] * 20 + [1.01] * 19 + [9.0])
    assert timing.seconds == pytest.approx(1.0, abs=0.01)
    assert (timing.samples, timing.outliers) == (40, 1)


def test_a_short_call_is_repeated_within_a_sample_and_a_long_one_is_not() -> None:
    quick, slow = Ticking([8e-6]), Ticking([0.5])
    measure([lambda: None], quick, 0.1)
    measure([lambda: None], slow, 0.1)
    assert quick.asked[-1] == (13, 40)
    assert slow.asked[-1] == (1, 5)


def test_every_input_set_takes_its_turn() -> None:
    seen: list[int] = []
    calls = [lambda number=number: seen.append(number) for number in range(3)]
    HostClock().samples(calls, 2, 3)
    assert seen == [0, 1, 2, 0, 1, 2]


def test_a_held_point_runs_for_its_time_before_it_counts() -> None:
    clock = Ticking([0.01])
    measure([lambda: None], clock, 0.1, hold=1.0)
    assert math.prod(clock.asked[1]) * 0.01 == pytest.approx(1.0)


# What is measured next


def test_an_early_end_leaves_something_of_every_group() -> None:
    groups = [[point(size, family) for size in (1, 2, 4)] for family in "abc"]
    assert [one.variant for one in interleaved(groups)[:3]] == ["a", "b", "c"]


def test_matrix_products_come_first_in_as_many_points_as_their_curve_needs() -> None:
    products = [Point("gemm", "product", "bf16", {"m": size}, 1.0, 1.0) for size in range(1, 9)]
    others = [Point("attention", "forward", "bf16", {"m": size}, 1.0, 1.0) for size in range(1, 4)]
    ordered = basis_first(interleaved([others, products]))
    assert BASIS == FEWEST
    assert ordered[: BASIS + 3] == [*products[:BASIS], *others[:3]]
    assert ordered[BASIS + 3 :] == products[BASIS:]


def uncertainty(candidate: Point, measured: Sequence[Timed]) -> float:
    """Return what `Candidates.scores` says of a candidate, from all points measured so far."""
    places = np.array([coordinates(one) for one, _ in measured])
    rates = np.array([math.log(seconds / one.size) for one, seconds in measured])
    distances = np.sqrt(((places - coordinates(candidate)) ** 2).sum(axis=1))
    nearest = np.argsort(distances, kind="stable")[:NEIGHBOURS]
    varies = float(np.std(rates[nearest])) if nearest.size > 1 else 1.0
    return min(float(distances[nearest[0]]), FARTHEST) * (varies + FLOOR)


def test_a_point_of_an_unknown_family_comes_first() -> None:
    adaptive = Adaptive([point(8), point(8, "new")], [(point(8), 1e-6)])
    assert next(iter(adaptive)) == point(8, "new")


def test_the_curve_is_measured_where_its_rate_changes() -> None:
    """Rates are even from 64 up and uneven below: a gap of the same width is less certain below."""
    slower = {1: 30.0, 4: 5.0, 16: 1.5, 64: 1.0, 256: 1.0, 1024: 1.0, 4096: 1.0}
    measured = [(point(size), factor * point(size).flops * 1e-12) for size, factor in slower.items()]
    candidates = Adaptive([point(8), point(512)], measured).families[point(8).family]
    below, above = candidates.scores
    assert below > 3 * above


def test_an_adaptive_run_measures_each_candidate_once_and_none_that_is_known() -> None:
    adaptive = Adaptive([point(size) for size in (2, 4, 8, 16)], [(point(1), 1e-6)])
    order = []
    for one in adaptive:
        order.append(one.shape["m"])
        adaptive.learn(one, None if one.shape["m"] == 4 else one.flops * 1e-6)
    assert sorted(order) == [2, 4, 8, 16]
    assert order[0] in (8, 16)


def test_the_next_point_is_the_one_that_the_formula_of_one_point_names() -> None:
    """The arrays that grow with each point choose as pricing every candidate anew does; twins count once."""
    dice = np.random.default_rng(7)
    shapes = [tuple(int(size) for size in 2 ** dice.uniform(9, 15, 2)) for _ in range(40)]
    points = [
        Point("gemm", name, "bf16", {"m": m, "n": n}, 2.0 * m * n, 1.0) for m, n in shapes for name in "ab"
    ]
    known = [(one, one.flops * 1e-12 * dice.uniform(1, 2)) for one in points[:6]]
    adaptive, left = Adaptive([*points[6:], points[6]], known), list(points[6:])
    for one in adaptive:
        scores = [
            uncertainty(each, [pair for pair in known if pair[0].family == each.family]) for each in left
        ]
        assert uncertainty(one, [pair for pair in known if pair[0].family == one.family]) == pytest.approx(
            max(scores)
        )
        left.remove(one)
        known.append((one, one.flops * 1e-12 * dice.uniform(1, 2)))
        adaptive.learn(*known[-1])
    assert left == []


def test_the_same_seed_gives_the_same_points_and_keeps_to_the_range() -> None:
    shapes = scattered(200, 128, m=(512, 32768), k=(512, 8192))
    assert shapes == scattered(200, 128, m=(512, 32768), k=(512, 8192))
    assert all(512 <= shape["m"] <= 32768 and shape["m"] % 128 == 0 for shape in shapes)
    below = np.mean([shape["m"] < 4096 for shape in shapes])
    assert 0.4 < below < 0.6


@every("name", sorted(benches()))
@every(
    "device",
    [processor(), processor(kind="cuda", capability=8.0), processor(kind="cuda", capability=10.0)],
    ids=["cpu", "a100", "b200"],
)
def test_every_point_of_every_bench_has_its_own_key_and_work(name: str, device: Device) -> None:
    bench = benches()[name]
    points = [*bench.coarse(device), *bench.finer(device)]
    assert {one.bench for one in points} <= {name}
    assert all(one.size > 0 and min(one.shape.values()) > 0 for one in points)
    coarse = [one.key for one in bench.coarse(device)]
    assert len(coarse) == len(set(coarse))


def test_types_that_a_chip_lacks_are_not_measured() -> None:
    kinds = {
        capability: {
            one.dtype for one in benches()["gemm"].coarse(processor(kind="cuda", capability=capability))
        }
        for capability in (7.0, 8.0, 9.0, 10.0)
    }
    assert kinds[7.0] == {"fp16"}
    assert kinds[8.0] == {"bf16", "fp16"}
    assert kinds[9.0] == {"bf16", "fp16", "fp8"}
    assert kinds[10.0] == {"bf16", "fp16", "fp8", "mxfp8", "nvfp4"}


def test_losses_on_a_gpu_are_measured_on_rows_as_wide_as_a_vocabulary() -> None:
    """A row of 2,048 stays in a multiprocessor, one of 128,256 in fp32 does not."""
    bench, device = benches()["elementwise"], processor(kind="cuda", capability=9.0)
    points = [*bench.coarse(device), *bench.finer(device)]
    widths = {one.shape["width"] for one in points if one.variant == "loss"}
    assert widths == {32000, 128256}
    largest = max(one.nbytes / 8 for one in points if one.variant == "loss")
    assert largest < 1.2 * max(one.nbytes / 4 for one in points if one.variant == "copy")


def test_work_is_counted_as_papers_count_it() -> None:
    attention = benches()["attention"]
    (forward,) = [
        one
        for one in attention.coarse(processor(kind="cuda", capability=9.0))
        if one.variant == "chosen-causal-forward"
        and one.shape == {"batch": 1, "heads": 32, "kv_heads": 8, "seq": 4096, "head_dim": 128}
    ]
    assert forward.flops == 4 * 32 * 4096 * 2048 * 128
    adam = next(one for one in benches()["elementwise"].coarse(processor()) if one.variant == "adam")
    assert adam.nbytes == 28 * adam.shape["rows"] * adam.shape["width"]


def test_an_unknown_bench_has_a_near_one() -> None:
    with pytest.raises(InputError, match="nearest: gemm"):
        chosen(["gem"])
    assert chosen(["collectives", "moe"])[1] == ["collectives"]


# What is kept


def row(key: str, **fields: Any) -> dict[str, Any]:
    return {"key": key, "bench": "gemm", "variant": "product", "dtype": "bf16", "seconds": 1.0} | fields


def test_rows_are_on_disk_as_soon_as_they_are_known(tmp_path: Path) -> None:
    table = RawTable(tmp_path / "deep" / "raw.jsonl", HEAD)
    table.add(row("a"))
    lines = (tmp_path / "deep" / "raw.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(lines[0])["schema"] == SCHEMA
    assert json.loads(lines[1])["key"] == "a"


def test_an_interrupted_table_goes_on_even_where_its_last_line_was_cut(tmp_path: Path) -> None:
    path = tmp_path / "raw.jsonl"
    table = RawTable(path, HEAD)
    table.add(row("a"))
    with path.open("a", encoding="utf-8") as stream:
        stream.write('{"key": "b", "ben')
    again = RawTable(path, HEAD)
    assert again.keys == {"a"}
    again.add(row("c"))
    assert [one["key"] for one in RawTable(path, {}).rows] == ["a", "c"]


def test_another_machine_or_version_is_not_mixed_in(tmp_path: Path) -> None:
    path = tmp_path / "raw.jsonl"
    RawTable(path, HEAD).add(row("a"))
    with pytest.raises(InputError, match=r"driver was 580.1 and is 590.2.*--fresh"):
        RawTable(path, HEAD | {"driver": "590.2"})
    assert RawTable(path, HEAD | {"driver": "590.2"}, fresh=True).rows == []


def test_what_is_no_raw_table_is_not_written_over(tmp_path: Path) -> None:
    path = tmp_path / "raw.jsonl"
    path.write_text("my notes\n", encoding="utf-8")
    with pytest.raises(InputError, match="no raw table"):
        RawTable(path, HEAD)
    assert path.read_text(encoding="utf-8") == "my notes\n"


def test_a_folder_that_cannot_be_written_is_told_before_anything_is_measured(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(InputError, match="--out"):
        RawTable(tmp_path / "file" / "raw.jsonl", HEAD)


def test_a_disk_that_fills_stops_with_what_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = RawTable(tmp_path / "raw.jsonl", HEAD)
    table.add(row("a"))

    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", full)
        with pytest.raises(Stopped, match=r"No space left on device.*the 1 points measured so far are kept"):
            table.add(row("b"))
    assert [one["key"] for one in RawTable(tmp_path / "raw.jsonl", {}).rows] == ["a"]


# A session


def fake_bench(calls: list[str], fails: str = "") -> Bench:
    def prepare(one: Point, _device: Device) -> Call:
        if one.variant == fails:
            raise RuntimeError("CUDA out of memory. Tried to allocate\nmore")
        calls.append(one.key)
        return lambda: None

    return Bench(
        name="gemm",
        title="fake",
        coarse=lambda _device: [point(2, "a"), point(2, "b")],
        finer=lambda _device: [point(size, "a") for size in (4, 8, 16)],
        prepare=prepare,
        clock=lambda one, _device: Ticking([1e-3 * one.shape["m"]]),
    )


def session(tmp_path: Path, seconds: float, ticks: float = 0.0) -> Session:
    counter = itertools.count()
    table = RawTable(tmp_path / "raw.jsonl", HEAD)
    return Session(processor(), Driver(), table, seconds, now=lambda: ticks * next(counter))


def test_a_session_measures_all_that_it_may_and_a_second_one_nothing_more(tmp_path: Path) -> None:
    calls: list[str] = []
    first = session(tmp_path, 10.0)
    assert first.run([fake_bench(calls)]) == []
    assert len(first.table.rows) == 5
    before = len(calls)
    second = session(tmp_path, 10.0)
    assert second.run([fake_bench(calls)]) == []
    assert len(calls) == before


def test_a_session_ends_when_its_time_is_spent_and_says_what_is_missing(tmp_path: Path) -> None:
    short = session(tmp_path, 1.0, ticks=0.45)
    missing = short.run([fake_bench([])])
    assert [one.variant for one in missing] == ["b"]
    assert any("1 points of the grid did not fit" in note for note in notes(short.table.rows, missing))


def test_a_point_that_the_device_refuses_is_told_and_passed(tmp_path: Path) -> None:
    run = session(tmp_path, 10.0)
    assert run.run([fake_bench([], fails="b")]) == []
    assert [one["refused"] for one in run.table.refused()] == ["CUDA out of memory. Tried to allocate"]
    assert any(
        "1 points of gemm b bf16 were refused: CUDA out of memory" in note
        for note in notes(run.table.rows, [])
    )


def test_rows_of_a_throttled_moment_are_left_out_and_told() -> None:
    slow = row("b", samples=5, outliers=0, slowdowns=["hardware slowdown"])
    fine = row("a", samples=5, outliers=0, slowdowns=[])
    assert usable([slow, fine]) == [fine]
    assert usable([slow]) == [slow]
    assert any("1 of 2 points ran throttled (hardware slowdown)" in note for note in notes([slow, fine], []))


def test_noise_is_told() -> None:
    noisy = row("a", samples=10, outliers=4, slowdowns=[])
    assert any("4 of 10" in note for note in notes([noisy], []))


# A device that cannot be measured


class Library:
    """A driver's library that says what it is told to."""

    class NVMLError(Exception):
        """What the real one raises."""

    NVML_CLOCK_SM = 1

    def __init__(self, **answers: Any) -> None:
        self.answers = answers

    def __getattr__(self, name: str) -> Any:
        if name not in self.answers:
            raise AttributeError(name)
        return lambda *_: self.answers[name]


def gpu(**changes: Any) -> Device:
    return processor(kind="cuda", name="NVIDIA H100 80GB HBM3", capability=9.0, **changes)


def test_a_gpu_in_use_is_refused_with_the_process() -> None:
    others = [SimpleNamespace(pid=4711, usedGpuMemory=40 * GIB)]
    driver = Driver(Library(nvmlDeviceGetComputeRunningProcesses=others), object())
    with pytest.raises(Stopped, match=r"cuda:0 .* is busy: process 4711 holds 40 GiB.*--allow-busy"):
        check_free(gpu(), driver)


def test_a_monitor_on_a_gpu_is_no_use() -> None:
    others = [SimpleNamespace(pid=4711, usedGpuMemory=30 * 2**20)]
    check_free(gpu(), Driver(Library(nvmlDeviceGetComputeRunningProcesses=others), object()))


def test_slices_are_refused() -> None:
    with pytest.raises(Stopped, match="cut into MIG slices"):
        check_free(gpu(), Driver(Library(nvmlDeviceGetMigMode=(1, 1)), object()))


def test_a_hot_gpu_is_refused_with_its_reasons() -> None:
    library = Library(nvmlDeviceGetCurrentClocksEventReasons=0x60, nvmlDeviceGetTemperature=91)
    reading = Driver(library, object()).reading()
    assert reading.slowdowns == ("software thermal slowdown", "hardware thermal slowdown")
    with pytest.raises(Stopped, match=r"throttled at 91 C \(software thermal slowdown, hardware"):
        refuse_slow(gpu(), reading)


def test_the_power_limit_is_no_fault() -> None:
    reading = Driver(Library(nvmlDeviceGetCurrentClocksEventReasons=0x04), object()).reading()
    assert reading.slowdowns == ()
    refuse_slow(gpu(), reading)


def test_a_driver_that_says_nothing_is_no_fault() -> None:
    assert Driver().reading() == PowerReading()
    check_free(gpu(), Driver())
    assert open_driver(None).version() == ""


def broken_torch(bad: int, count: int = 8) -> Any:
    """A torch in which one of several GPUs cannot multiply."""

    class Matrix:
        def __init__(self, where: str) -> None:
            self.where = where

        def __matmul__(self, other: Matrix) -> Matrix:
            if self.where == f"cuda:{bad}":
                raise RuntimeError("CUDA error: uncorrectable ECC error encountered\nCompile with")
            return self

        def sum(self) -> float:
            return 256.0**3

    return SimpleNamespace(
        ones=lambda *_size, dtype, device: Matrix(device),
        float32="float32",
        cuda=SimpleNamespace(device_count=lambda: count),
    )


def test_one_broken_gpu_of_eight_is_named() -> None:
    assert check_works(gpu(torch=broken_torch(5))) == [
        "cuda:5 is broken (CUDA error: uncorrectable ECC error encountered); take it out before training"
    ]
    with pytest.raises(Stopped, match=r"cuda:5 .* is broken: CUDA error: uncorrectable ECC error"):
        check_works(gpu(torch=broken_torch(5), index=5))


def test_a_rank_touches_no_gpu_but_its_own() -> None:
    assert check_works(gpu(torch=broken_torch(5)), alone=True) == []
    with pytest.raises(Stopped, match="cuda:5"):
        check_works(gpu(torch=broken_torch(5), index=5), alone=True)


def test_a_gpu_that_multiplies_wrongly_is_broken() -> None:
    torch = broken_torch(-1, count=1)
    torch.ones(1, dtype="", device="").__class__.sum = lambda _self: 3.0
    with pytest.raises(Stopped, match=r"a product of ones gives 3, not 1\.67"):
        check_works(gpu(torch=torch))


@every("text", ["tpu", "cuda:x", "cuda:", "cpu:", ""])
def test_a_device_is_cpu_or_cuda(text: str) -> None:
    with pytest.raises(InputError, match="--device"):
        read_device(text)


def test_a_device_without_a_number_is_the_ranks_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_RANK", "3")
    assert (read_device("cuda"), read_device("CUDA:1")) == (("cuda", 3), ("cuda", 1))


def absent(name: str) -> Any:
    raise ModuleNotFoundError(f"No module named {name!r}")


def test_without_torch_one_sentence_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.import_module", absent)
    with pytest.raises(Stopped, match=r"pip install 'parallelism-planner\[profile\]'"):
        torch_module()


def test_a_torch_without_gpu_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = SimpleNamespace(
        cuda=SimpleNamespace(is_available=lambda: False),
        version=SimpleNamespace(cuda=None),
        __version__="2.13.0+cpu",
    )
    monkeypatch.setattr("importlib.import_module", lambda _name: torch)
    with pytest.raises(
        Stopped, match=r"sees no GPU \(this PyTorch is built for the CPU alone\); --device cpu"
    ):
        open_device("cuda")


# Ranks


def test_groups_go_from_pairs_to_all_over_each_tier() -> None:
    groups = group_ranks(16, 8)
    assert [ranks for _, ranks, _ in groups] == [
        (0, 1),
        (0, 1, 2, 3),
        tuple(range(8)),
        (0, 8),
        tuple(range(16)),
    ]
    assert [nodes for _, _, nodes in groups] == [1, 1, 1, 2, 2]
    assert [ranks for _, ranks, _ in group_ranks(2, 1)] == [(0, 1)]
    assert [ranks for _, ranks, _ in group_ranks(6, 6)] == [(0, 1), (0, 1, 2, 3), tuple(range(6))]


def test_buffers_divide_among_the_ranks() -> None:
    group = RankGroup("g", (0, 1, 2), 1, None, None)
    assert all(size % (4 * 9) == 0 for size in sizes(processor(), group))
    assert max(sizes(processor(), group)) <= 16 * 2**20


@every(
    ("error", "who"),
    [
        ("Rank 3 failed to pass monitoredBarrier in 60000 ms", "rank 3"),
        ("[Rank 0]: Ranks 2, 5 failed to pass monitoredBarrier in 1000 ms", "rank 2, 5"),
        ("Connection closed by peer", "a rank"),
    ],
)
def test_a_rank_that_does_not_come_is_named_with_its_group(error: str, who: str) -> None:
    def barrier(**_: Any) -> None:
        raise RuntimeError(error)

    dist = SimpleNamespace(monitored_barrier=barrier)
    group = RankGroup("'all ranks' (ranks 0-7)", tuple(range(8)), 1, None, None)
    ranks = Ranks(0, 8, 8, 60.0, "nccl", dist, (group,))
    with pytest.raises(Stopped) as stopped:
        ranks.arrive("all_reduce of 1024 bytes", group)
    assert str(stopped.value).startswith(
        f"{who} of group 'all ranks' (ranks 0-7) did not arrive at all_reduce of 1024 bytes within 60 s"
    )


def test_even_ranks_are_no_news() -> None:
    assert straggler_note([700e12, 720e12, 690e12, 710e12]) == ""


def test_versions_that_changed_are_told() -> None:
    assert differences({"torch": "2.6", "cuda": ""}, {"torch": "2.13", "cuda": "13.0"}) == [
        "torch was 2.6 and is 2.13"
    ]
    assert not differences(HEAD, HEAD)


def test_product_names_match_aliases() -> None:
    assert same_product("mi300x", "AMD Instinct MI300X")
    assert not same_product("h100-80gb-sxm", "NVIDIA H200")


# The command


def test_the_command_refuses_what_makes_no_sense_all_at_once(tmp_path: Path) -> None:
    done = run_planner(
        "profile", "--device", "cpu", "--minutes", "0", "--timeout", "nan", "--out", "x.txt", cwd=tmp_path
    )
    assert done.returncode == 2
    assert all(option in done.stderr for option in ("--minutes", "--timeout", "--out"))
    assert "x.yaml" in done.stderr


@every(
    ("torch", "cuda", "told"),
    [
        ("2.13.0", "13.0", []),
        ("2.14.0", "13.0", ["the curves were measured with other versions: torch was 2.13.0 and is 2.14.0"]),
        ("2.13.0", "12.8", ["the curves were measured with other versions: cuda was 13.0 and is 12.8"]),
    ],
)
def test_curves_of_other_versions_are_told(tmp_path: Path, torch: str, cuda: str, told: list[str]) -> None:
    curves = tmp_path / "mine.curves.yaml"
    curves.write_text("provenance: {torch: '2.13.0', cuda: '13.0'}\n", encoding="utf-8")
    part = load_accelerator("h100-80gb-sxm").model_copy(update={"curves": str(curves)})
    running = SimpleNamespace(__version__=torch, version=SimpleNamespace(cuda=cuda))
    assert version_notes(part, gpu(torch=running)) == told


def test_another_driver_is_told_on_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    curves = tmp_path / "mine.curves.yaml"
    curves.write_text("provenance: {driver: '580.95.05'}\n", encoding="utf-8")
    part = load_accelerator("h100-80gb-sxm").model_copy(update={"curves": str(curves)})
    running = SimpleNamespace(__version__="2.13.0", version=SimpleNamespace(cuda="13.0"))
    monkeypatch.setattr("planner.profile.check.loaded_driver", lambda: "590.10")
    (told,) = version_notes(part, gpu(torch=running))
    assert told.endswith("driver was 580.95.05 and is 590.10")
