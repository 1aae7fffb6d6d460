"""Engines whose models live in host memory: what their authors say fits does, and not much more."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.cost.case import case_of
from planner.cost.estimate import Estimate, estimate
from planner.cost.memory.host_rules import host_states, spilled_bytes
from planner.inputs.load_hardware import load_hardware
from planner.inputs.model import ModelSpec
from planner.inputs.workload import Workload
from planner.plan import Plan
from planner.runtimes import runtimes
from planner.runtimes.family import Job
from tests.cases import every
from tests.cli.command import planner
from tests.unit.test_weights_off_device import gpt

DEEPSPEED = runtimes()["deepspeed"]


def priced(
    spec: ModelSpec, box: str, gpus: int, engine: str, tokens: int = 1024, master: str | None = None
) -> Estimate:
    """Price weights, gradients and states on the host."""
    work = Workload.model_validate(
        {
            "seq_len": tokens,
            "global_batch": gpus,
            "precision": "bf16" if master else "fp16",
            "master_dtype": master,
        }
    )
    job = Job(spec, load_hardware(box), gpus, work)
    plan = Plan(dp=float(gpus), zero=3, zero_shards=float(gpus), recompute="full", offload="weights")
    return estimate(plan, job, DEEPSPEED.with_traits(engine=engine))


def box(folder: Path, accelerator: str, node: str, memory: str) -> str:
    """Write a cluster of such accelerators whose nodes have so much memory."""
    path = folder / "box.yaml"
    inside = f"{{base: {node}, host_memory: {memory}}}"
    pool = f"  - accelerator: {accelerator}\n    node: {inside}\n    network: infiniband-hdr\n"
    path.write_text(f"name: box\npools:\n{pool}")
    return str(path)


def fits(answer: Estimate) -> bool:
    held = not {fault.rule for fault in answer.violations if fault.rule.startswith("host-holds")}
    return held and answer.peak <= answer.capacity


V100 = ("v100-32gb", "dgx-1-v100", "240 GB")
A100 = ("a100-40gb-sxm", "dgx-a100-40gb", "1 TB")


@every(
    ("machine", "gpus", "largest", "larger"),
    [
        (V100, 8, (64, 4864), (90, 5120)),
        (A100, 8, (66, 9216), (100, 9216)),
        (A100, 32, (96, 12288), (180, 12288)),
    ],
    ids=["18 B on 8 V100 and 240 GB", "68 B on 8 A100 and 1 TB", "175 B on 32 A100"],
)
def test_models_of_patrickstar(
    tmp_path: Path,
    machine: tuple[str, str, str],
    gpus: int,
    largest: tuple[int, int],
    larger: tuple[int, int],
) -> None:
    """arXiv:2108.05818 and its repository; half as large again does not fit, nor does it with ZeRO-3."""
    where = box(tmp_path, *machine)
    assert fits(priced(gpt(*largest), where, gpus, "patrickstar"))
    assert not fits(priced(gpt(*larger), where, gpus, "patrickstar"))
    if gpus == 8:
        assert not fits(priced(gpt(*largest), where, gpus, "deepspeed-zero"))


def test_a_parameter_takes_14_bytes_in_host_and_devices(tmp_path: Path) -> None:
    """arXiv:2108.05818: 2 + 12, a gradient in the place of its weight; what the host lacks is on devices."""
    answer = priced(gpt(64, 4864), box(tmp_path, *V100), 8, "patrickstar")
    case = case_of(answer.plan, answer.job, answer.runtime)
    held = sum(map(float, host_states(answer.plan, case).values()))
    spilled = 0.8 * 8 * float(spilled_bytes(case, answer.plan))
    assert held == pytest.approx(0.8 * 240e9)
    assert held + spilled == pytest.approx(14 * answer.job.model.params)


H200 = ("h200-141gb", "dgx-h100", "1.5 TB")


def test_120_b_on_one_h200_fill_its_host(tmp_path: Path) -> None:
    """Horizon-LM (arXiv:2602.04816): 12 bytes a parameter, 120 B with 1.5 TB; the device has room."""
    where = box(tmp_path, *H200)
    largest = priced(gpt(95, 10240), where, 1, "horizon-lm", master="bf16")
    assert largest.job.model.params == pytest.approx(120e9, rel=0.01)
    case = case_of(largest.plan, largest.job, largest.runtime)
    held = sum(map(float, host_states(largest.plan, case).values()))
    assert held == pytest.approx(12 * largest.job.model.params)
    assert fits(largest)
    assert largest.peak < 0.1 * largest.capacity
    assert not fits(priced(gpt(100, 10240), where, 1, "horizon-lm", master="bf16"))


def test_what_the_device_holds_does_not_grow_with_depth(tmp_path: Path) -> None:
    """arXiv:2602.04816: two layers' buffers and checkpoints, whatever the number of layers."""
    where = box(tmp_path, *H200)
    short, long = (priced(gpt(layers, 8192), where, 1, "horizon-lm", master="bf16") for layers in (20, 80))
    checkpoints = 60 * 2 * 1024 * 8192
    assert long.peak - short.peak == pytest.approx(checkpoints, rel=0.1)


def test_it_is_no_slower_than_zero_3_and_gains_less_than_the_worst_case_that_is_printed(
    tmp_path: Path,
) -> None:
    """arXiv:2602.04816: up to 12.2 times ZeRO-3 with offload, where that is nearly out of memory."""
    where, spec = box(tmp_path, *H200), gpt(44, 5120)
    slow = priced(spec, where, 1, "deepspeed-zero", tokens=16384)
    fast = priced(spec, where, 1, "horizon-lm", tokens=16384, master="bf16")
    assert 1.0 <= slow.step / fast.step < 12.2


@every("engine", ["patrickstar", "horizon-lm"])
def test_no_runner_is_known(engine: str) -> None:
    layout = ("--zero", "3", "--offload", "weights", "--runtime", "deepspeed", "--format", "json")
    done = planner(
        "estimate", "llama3-8b", "--hardware", "dgx-h100", "--gpus", "8", "--set", f"engine={engine}", *layout
    )
    assert done.code == 1
    assert "engine-has-a-runner" in {fault["rule"] for fault in done.json["violations"]}
