"""A share of the optimizer states on the host, and weights there alone: memory, time, files, reading back.

Sources: ZeRO-Offload (arXiv:2101.06840) and its ++ (DeepSpeed edaa7221, ``blogs/deepspeed-offloadpp``,
``deepspeed/runtime/zero/stage3.py``); Megatron-LM
d98e8a64, ``megatron/core/optimizer/cpu_offloading/hybrid_optimizer.py`` (``--optimizer-offload-fraction``).
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from planner.api import search_plans
from planner.cost.case import case_of
from planner.cost.estimate import Estimate
from planner.cost.memory.host_rules import host_states
from planner.inputs.load import load_model
from planner.inputs.load_hardware import load_hardware
from planner.inputs.workload import Workload
from planner.plan import Plan
from planner.runtimes import runtimes
from planner.runtimes.deepspeed.offloads import group_size
from planner.runtimes.family import Job
from planner.search.assign.improve import Improver
from planner.search.operators.share import STEPS, hosted_share, least_share
from planner.search.request import SearchRequest, scan_of
from tests.cases import every
from tests.cli.command import planner
from tests.unit.test_weights_off_device import faults, gpt, priced

SHARD = 8.03e9 / 8
JOB = ("llama3-8b", "--hardware", "dgx-h100", "--gpus", "8", "--global-batch", "32")


def hosted(answer: Estimate) -> float:
    """Return bytes in a node's memory for each parameter of the model."""
    states = host_states(answer.plan, case_of(answer.plan, answer.job, answer.runtime))
    return float(sum(states.values())) / float(answer.job.model.params)


def test_each_share_rests_where_it_is_stepped() -> None:
    """12 bytes of states and 4 of a gradient in fp32; its 16-bit gradients wait on the host, all of them."""
    for share in (0.25, 0.5, 0.9):
        answer = priced("llama3-8b", f"optimizer:{100 * share:g}%")
        assert answer.stages[0].optimizer == pytest.approx((1 - share) * 16 * SHARD, rel=0.01)
        assert answer.stages[0].gradients == 0
        assert hosted(answer) == pytest.approx(share * 16 + 2)


def test_the_smaller_the_share_the_shorter_the_step() -> None:
    """ZeRO-Offload++: the smaller the ratio, the shorter an iteration and the fuller the device."""
    answers = [priced("llama3-8b", f"optimizer{share}") for share in ("", ":80%", ":40%", ":10%")]
    assert [one.step for one in answers] == sorted((one.step for one in answers), reverse=True)
    assert [one.peak for one in answers] == sorted(one.peak for one in answers)
    assert priced("llama3-8b", "optimizer:100%").step == answers[0].step


@every(("layers", "hidden", "gpu", "most"), [(40, 5120, "dgx-a100-40gb", 3.0), (48, 7168, "dgx-h100", 6.0)])
def test_twin_flow_gains_no_more_than_its_authors_measured(
    layers: int, hidden: int, gpu: str, most: float
) -> None:
    """Up to 3 times on eight A100 of 40 GB with OPT-13B, up to 6 on eight H100 with OPT-30B.

    Their batch is not printed; a sequence on each accelerator here, where the host's share is largest.
    """
    whole, tenth = (
        priced(gpt(layers, hidden), offload, 8, gpu) for offload in ("optimizer", "optimizer:10%")
    )
    assert 1.5 < whole.step / tenth.step < 1.1 * most


def test_weights_alone_leave_states_and_gradients_on_the_device() -> None:
    none, alone = priced("llama3-8b", "none"), priced("llama3-8b", "weights-alone")
    assert not alone.violations
    assert alone.stages[0].weights == 0
    assert alone.stages[0].optimizer == none.stages[0].optimizer
    assert alone.stages[0].gradients == none.stages[0].gradients
    assert hosted(alone) == pytest.approx(2)
    assert none.step < alone.step < priced("llama3-8b", "weights").step


def test_deepspeed_divides_states_in_its_third_stage_alone() -> None:
    done = planner("estimate", *JOB, "--runtime", "deepspeed", "--zero", "2", "--offload", "optimizer:50%",
                   "--format", "json")  # fmt: skip
    assert {"offload-needs-zero"} == {fault["rule"] for fault in done.json["violations"]}
    assert faults("llama3-8b", "optimizer:50%") == set()


@every("word", ["optimizer:0", "optimizer:101%", "optimizer:many", "weights:50%"])
def test_what_is_no_share_is_told(word: str) -> None:
    done = planner("estimate", *JOB, "--offload", word)
    assert done.code == 2
    assert done.err.count("\n") == 1
    assert "without an argument" in done.err or "at most 100%" in done.err


def test_whole_groups_count_so_that_files_make_them_small() -> None:
    """int((1 - ratio) n) of n groups stay: none of a shard of a single one."""
    assert group_size("optimizer", SHARD) == 10**9
    groups = SHARD / group_size("optimizer:40%", SHARD)
    assert 1 - int((1 - 0.4) * groups) / groups == pytest.approx(0.4, abs=0.02)


FILES = {
    "deepspeed": ("ds_config.json", "deepspeed", ("--zero", "3")),
    "megatron-lm": ("train.sh", "megatron-lm", ("--zero", "1", "--tp", "2")),
    "megatron-bridge": ("train.py", "megatron-bridge", ("--zero", "1", "--tp", "2")),
}


@every("runtime", FILES)
@every("offload", ["optimizer:40%", "weights-alone"])
def test_files_say_the_share_and_are_read_back_at_the_same_price(
    runtime: str, offload: str, tmp_path: Path
) -> None:
    name, target, layout = FILES[runtime]
    if offload == "weights-alone" and runtime != "deepspeed":
        return
    saved, out = tmp_path / "plan.yaml", tmp_path / "out"
    asked = (*JOB, "--runtime", target, *layout, "--offload", offload)
    first = planner("estimate", *asked, "--save", str(saved), "--format", "json")
    assert first.json["violations"] == []
    assert planner("emit", str(saved), "--out", str(out)).code == 0
    text = (out / name).read_text()
    if runtime == "deepspeed":
        section = json.loads(text)["zero_optimization"]
        assert section.get("offload_optimizer", {}).get("ratio") == (0.4 if "40" in offload else None)
    else:
        assert "0.4" in text
    again = planner("estimate", "--from", str(out / name), "--hardware", "dgx-h100", "--gpus", "8",
                    "--format", "json")  # fmt: skip
    assert again.json["plan"]["offload"] == offload
    assert again.json["step_time_s"] == first.json["step_time_s"]
    assert again.json["memory"] == first.json["memory"]


def test_a_ratio_that_one_group_makes_void_is_told(tmp_path: Path) -> None:
    file = tmp_path / "ds.json"
    section: dict[str, Any] = {"stage": 3, "offload_optimizer": {"device": "cpu", "ratio": 0.3}}
    file.write_text(
        json.dumps({"train_batch_size": 32, "bf16": {"enabled": True}, "zero_optimization": section})
    )
    asked = ("estimate", "--from", str(file), *JOB[:5], "--seq-len", "4096", "--micro-batch", "1")
    assert planner(*asked, "--format", "json").json["plan"]["offload"] == "optimizer:30%"
    done = planner(*asked)
    assert "sub_group_size" in done.out + done.err


@every(("kept", "told"), [(None, True), (5e8, True), (0, False)])
def test_weights_that_stay_in_memory_beside_the_disk_are_told(
    kept: float | None, told: bool, tmp_path: Path
) -> None:
    file, param = tmp_path / "ds.json", {"device": "nvme", "nvme_path": "/nvme"}
    param |= {} if kept is None else {"max_in_cpu": kept}
    section = {
        "stage": 3,
        "offload_param": param,
        "offload_optimizer": {"device": "nvme", "nvme_path": "/nvme"},
    }
    file.write_text(
        json.dumps({"train_batch_size": 32, "bf16": {"enabled": True}, "zero_optimization": section})
    )
    done = planner("estimate", "--from", str(file), *JOB[:5], "--seq-len", "4096", "--micro-batch", "1")
    assert ("max_in_cpu" in done.out + done.err) == told


def test_a_search_takes_the_least_share_that_fits() -> None:
    """Its plan is safe and faster than with all states away, and a fiftieth less would not be safe."""
    job = ("llama3-70b", "--hardware", "dgx-h100", "--gpus", "32", "--global-batch", "256")
    asked = ("--runtime", "deepspeed", "--micro-batch", "4", "--cp", "1", "--recompute", "full")
    first = planner("search", *job, *asked, "--format", "json").json["plans"][0]
    name, _, share = first["plan"]["offload"].partition(":")
    assert (name, share[-1]) == ("optimizer", "%")
    less = f"{name}:{float(share[:-1]) - 2:g}%"
    steps, peaks, risks = [], [], []
    for offload in (name, first["plan"]["offload"], less):
        bucket = ("--set", f"bucket_size={first['settings']['bucket_size']}")
        fixed = (*asked, "--zero", "3", "--offload", offload, *bucket, "--format", "json")
        answer = planner("estimate", *job, *fixed).json
        steps.append(answer["step_time_s"])
        peaks.append(answer["memory"]["peak_gib"])
        risks.append(answer["oom_probability"])
    assert steps == sorted(steps, reverse=True)
    assert steps[1] == first["step_time_s"]
    assert peaks == sorted(peaks)
    assert risks[1] < 0.05 < risks[2]


def found_within(
    gib: float, model: str, cluster: str, runtime: str, gpus: int, seq: int, batch: int
) -> Estimate:
    """Return the best plan of a search in so much memory."""
    job = Job(load_model(model), load_hardware(cluster), gpus, Workload(seq_len=seq, global_batch=batch))
    return search_plans(job, runtime, memory_limit=gib * 2**30, top=1).plans[0]


def test_more_memory_is_no_slower_where_states_barely_miss_it() -> None:
    """Gradients come back to the device with the states: room for these alone is not room for all."""
    job = ("llama2-13b", "dgx-a100-40gb", "deepspeed", 8, 2048, 8)
    less, more = (found_within(gib, *job) for gib in (28.0, 34.0))
    assert (less.plan.offload, more.plan.offload) == ("optimizer:32%", "optimizer:8%")
    assert more.step < 0.75 * less.step


def test_weights_on_the_host_are_searched_beside_what_fits_without() -> None:
    """Gathers within a node of weights from the host are cheaper than gathers between nodes."""
    job = ("llama2-13b", "rtx4090-8-pcie", "torchtitan", 16, 32768, 1024)
    less, more = (found_within(gib, *job) for gib in (16.4, 23.0))
    assert more.step == less.step
    assert (more.plan.offload, more.plan.zero_shards) == ("weights", 4.0)


@pytest.mark.parametrize(("stages", "layers"), [(1, None), (4, None), (4, (18, 22, 21, 19))])
def test_no_smaller_share_would_do(stages: int, layers: tuple[int, ...] | None) -> None:
    """Against every fiftieth in turn, whatever the limit; unlike stages meet it one after another."""
    work = Workload(seq_len=4096, global_batch=64)
    request = SearchRequest(
        load_model("llama3-70b"), (load_hardware("dgx-h100"),), (32,), work, (runtimes()["megatron-lm"],)
    )
    ((job, runtime),) = request.jobs()
    plan = Plan(
        tp=4.0, pp=float(stages), dp=8.0 / stages, zero=1, zero_shards=8.0 / stages,
        num_microbatches=8.0 * stages, sequence_parallel=True, recompute="full", stage_layers=layers,
    )  # fmt: skip
    scan = scan_of(request, job, runtime)
    bench = Improver(scan)
    all_of_them = [
        bench.price(replace(plan, offload=f"optimizer:{100 * k / STEPS:g}%")) for k in range(1, STEPS + 1)
    ]
    bare = bench.price(replace(plan, offload="none"))
    peaks = [one.peak for one in all_of_them]
    for limit in (
        min(peaks) * 0.99,
        min(peaks),
        *(peaks[place] * 1.0001 for place in range(0, STEPS, 6)),
        bare.peak,
    ):
        own = replace(scan, limit=limit)
        found = least_share(plan, Improver(own))
        fitting = [one for one in (bare, *all_of_them) if Improver(own).is_safe(one)]
        least = hosted_share(fitting[0].plan) if fitting else None
        assert (hosted_share(found.plan) if found else None) == least
