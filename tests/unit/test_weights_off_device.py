"""Weights and optimizer states in host memory and on NVMe: what fits, time, files, reading back.

Sources: S. Rajbhandari et al., "ZeRO-Infinity," arXiv:2104.07857; DeepSpeed's post on ZeRO-3 Offload (2021);
ALST, arXiv:2506.13996.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from planner.cost.case import case_of
from planner.cost.estimate import Estimate, estimate
from planner.cost.memory.host_rules import disk_states, host_states
from planner.cost.settings import with_value
from planner.inputs.load import load_model
from planner.inputs.load_hardware import load_hardware
from planner.inputs.model import ModelSpec
from planner.inputs.workload import Workload
from planner.plan import Plan
from planner.runtimes import runtimes
from planner.runtimes.deepspeed import ENTRY as DEEPSPEED
from planner.runtimes.family import Job, Runtime
from planner.techniques.offload import OFFLOADS
from planner.techniques.offload.family import fetch_seconds
from tests.cli.command import planner
from tests.unit.runner_jobs import model

GIB = 2.0**30


def gpt(layers: int, hidden: int) -> ModelSpec:
    """Return a plain model of 12 L h² weights and a table, as the papers count theirs."""
    heads = {"kind": "attention", "heads": hidden // 128, "kv_heads": hidden // 128, "head_dim": 128}
    block = {"d": {"mixer": heads, "ffn": {"kind": "dense", "inner": 4 * hidden, "gated": False}}}
    return model("gpt", block, ["d"] * layers, hidden=hidden, vocab=50304)


def priced(
    what: ModelSpec | str,
    offload: str,
    gpus: int = 8,
    hardware: str = "dgx-h100",
    tokens: int = 2048,
    runtime: Runtime = DEEPSPEED,
    **settings: str,
) -> Estimate:
    spec = load_model(what) if isinstance(what, str) else what
    work = Workload(seq_len=tokens, global_batch=gpus, precision="fp16" if hardware == "dgx-2" else "bf16")
    job = Job(spec, load_hardware(hardware), gpus, work)
    plan = Plan(dp=float(gpus), zero=3, zero_shards=float(gpus), recompute="full", offload=offload)
    for name, value in settings.items():
        runtime = with_value(runtime, name, value)
    return estimate(plan, job, runtime)


def faults(*which: Any, **how: Any) -> set[str]:
    return {fault.rule for fault in priced(*which, **how).violations}


def stores(*which: Any, **how: Any) -> set[str]:
    """Return the stores that do not hold what they must, and whether the device does."""
    answer = priced(*which, **how)
    full = {"device"} if answer.peak > answer.capacity else set()
    return full | {fault.rule for fault in answer.violations if "-holds-" in fault.rule}


def test_a_trillion_parameters_fit_the_disks_of_one_dgx_2_and_want_tiles_on_its_device() -> None:
    """The abstract: models of a trillion parameters on a single DGX-2.

    DeepSpeed of today keeps all 16-bit gradients in host memory, 2 TB of 1.5 there; half as large a model
    fits it too. On the device its whole products and their gradients take 2 GiB more than there are: the
    paper cuts them into tiles (sec. 5.1.3), which no plan here does.
    """
    trillion = gpt(128, 25600)
    assert trillion.params == pytest.approx(1.0e12, rel=0.02)
    assert stores(trillion, "optimizer", 16, "dgx-2") == {"device", "host-holds-states"}
    assert stores(trillion, "nvme", 16, "dgx-2") == {"device", "host-holds-states"}
    assert priced(trillion, "nvme", 16, "dgx-2").peak / GIB == pytest.approx(33.8, abs=0.1)
    assert stores(gpt(64, 25600), "nvme", 16, "dgx-2") == set()
    assert stores(gpt(64, 25600), "weights", 16, "dgx-2") == {"host-holds-states"}


def test_more_than_its_disks_hold_is_refused() -> None:
    assert "disk-holds-states" in faults(gpt(256, 25600), "nvme", 16, "dgx-2")


def test_forty_billion_parameters_fit_one_v100_with_the_memory_of_its_host() -> None:
    """ZeRO-3 Offload: 40 B on one V100 of 32 GB beside 1.5 TB; states alone on the host do not do."""
    forty = gpt(50, 8192)
    assert forty.params == pytest.approx(40e9, rel=0.03)
    assert stores(forty, "weights", 1, "dgx-2") == set()
    assert "device" in stores(forty, "optimizer", 1, "dgx-2")


def test_the_longest_context_of_alst_on_one_h100() -> None:
    """500 K tokens of Llama 8B with weights, states and inputs of layers on the host; 700 K need too much."""
    tiles = {"loss_tiles": "256", "mlp_tiles": "256", "host_checkpoints": "true"}
    long = priced("llama3.1-8b", "weights", 1, tokens=500_224, **tiles)
    assert not long.violations
    assert long.feasible
    assert not priced("llama3.1-8b", "weights", 1, tokens=700_160, **tiles).feasible
    assert not priced("llama3.1-8b", "optimizer", 1, tokens=600_064, **tiles).feasible


def states(offload: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what rests on the host and on the disks of a node, for one parameter. [byte]"""
    answer = priced("llama3-70b", offload)
    case = case_of(answer.plan, answer.job, answer.runtime)
    size = float(answer.job.model.params)
    host, disk = host_states(answer.plan, case), disk_states(answer.plan, case)
    each = [{name: float(part) / size for name, part in store.items()} for store in (host, disk)]
    return each[0], each[1]


def test_bytes_of_a_parameter_by_where_it_rests() -> None:
    """ZeRO-Infinity, sec. 3: 20 bytes a parameter with fp32 gradients, of which 2 are the 16-bit weights."""
    assert states("weights") == ({"optimizer states": pytest.approx(18), "weights": pytest.approx(2)}, {})
    host, disk = states("nvme")
    assert disk == {"optimizer states": pytest.approx(16), "weights": pytest.approx(2)}
    assert host["gradients"] == pytest.approx(2)
    assert host["pinned buffers"] * 70.55e9 == pytest.approx(8 * (8 * 1e8 * 4 + 5 * 1e8 * 2), rel=0.01)


def test_what_leaves_the_device_leaves_room_there() -> None:
    none, optimizer, weights, disk = (
        priced("llama3-8b", offload).stages[0] for offload in ("none", "optimizer", "weights", "nvme")
    )
    shard = 8.03e9 / 8
    assert none.optimizer == pytest.approx(12 * shard, rel=0.01)
    assert (optimizer.optimizer, optimizer.gradients) == (0, 0)
    assert optimizer.weights == pytest.approx(2 * shard, rel=0.01)
    assert (weights.weights, weights.gradients, weights.optimizer) == (0, 0, 0)
    assert disk.total == weights.total


def test_each_farther_store_takes_longer() -> None:
    times = [
        priced("llama3-70b", name).step for name in ("optimizer", "weights", "weights-optimizer-nvme", "nvme")
    ]
    assert times == sorted(times)
    assert len(set(times)) == len(times)


def test_ranks_of_a_node_share_its_disks_and_not_their_links() -> None:
    one, all_of_them = fetch_seconds(2e9, 50e9, 1, 25.6e9), fetch_seconds(2e9, 50e9, 8, 25.6e9)
    assert all_of_them == pytest.approx(8 * one)
    assert fetch_seconds(2e9, 50e9, 1) == fetch_seconds(2e9, 50e9, 8)


def test_a_disk_that_nobody_knows_is_refused() -> None:
    assert "disk-is-known" in faults("llama3-8b", "nvme", hardware="a3-highgpu-8g")


def test_weights_off_the_device_are_sharded_ones() -> None:
    job = Job(load_model("llama3-8b"), load_hardware("dgx-h100"), 8, Workload(seq_len=2048, global_batch=8))
    plan = Plan(dp=8.0, zero=2, zero_shards=8.0, offload="weights")
    assert "weights-off-the-device-are-sharded" in {
        fault.rule for fault in estimate(plan, job, DEEPSPEED).violations
    }


JOB = ("llama3-8b", "--hardware", "dgx-h100", "--gpus", "8", "--seq-len", "4096", "--global-batch", "64")


@pytest.mark.parametrize("name", [name for name in DEEPSPEED.offloads if name != "none"])
def test_deepspeeds_file_says_where_all_rests_and_is_read_back(name: str, tmp_path: Path) -> None:
    saved, out = tmp_path / "plan.yaml", tmp_path / "out"
    layout = ("--runtime", "deepspeed", "--zero", "3", "--offload", name)
    done = planner("estimate", *JOB, *layout, "--save", str(saved), "--format", "json")
    assert planner("emit", str(saved), "--out", str(out)).code == 0
    said = json.loads((out / "ds_config.json").read_text())
    zero, entry = said["zero_optimization"], OFFLOADS[name]
    devices = {"device": "none", "host": "cpu", "disk": "nvme"}
    for section, place in (("offload_optimizer", entry.states), ("offload_param", entry.weights)):
        part = zero.get(section, {"device": "none"})
        assert part["device"] == devices[place]
        assert place == "device" or part["pin_memory"]
        assert (place == "disk") == ("nvme_path" in part) == ("buffer_count" in part)
    assert entry.disk == ("aio" in said) == ("NVME_PATH" in (out / "train.sh").read_text())
    again = planner(
        "estimate", "--from", str(out / "ds_config.json"), "--hardware", "dgx-h100", "--gpus", "8",
        "--format", "json",
    )  # fmt: skip
    assert again.json["plan"]["offload"] == name
    assert again.json["step_time_s"] == done.json["step_time_s"]
    assert again.json["memory"] == done.json["memory"]


@pytest.mark.parametrize(
    ("runtime", "file", "line"),
    [
        ("fsdp", "accelerate.yaml", "fsdp_offload_params: true"),
        ("torchtitan", "train.sh", "--training.enable_cpu_offload"),
    ],
)
def test_pytorchs_fsdp_says_it_and_is_read_back(runtime: str, file: str, line: str, tmp_path: Path) -> None:
    saved, out = tmp_path / "plan.yaml", tmp_path / "out"
    layout = ("--runtime", runtime, "--zero", "3", "--offload", "weights")
    done = planner("estimate", *JOB, *layout, "--save", str(saved), "--format", "json")
    assert done.json["memory"]["stages"][0]["weights_gib"] == 0
    assert planner("emit", str(saved), "--out", str(out)).code == 0
    assert line in (out / file).read_text()
    again = planner(
        "estimate", "--from", str(out / file), "--hardware", "dgx-h100", "--gpus", "8", "--format", "json"
    )
    assert again.json["plan"]["offload"] == "weights"
    assert again.json["step_time_s"] == done.json["step_time_s"]


def test_pytorchs_adam_on_a_host_takes_six_times_as_long() -> None:
    """ZeRO-Offload, table 4: 5.71 s for four billion parameters where DeepSpeed's takes 1.03."""
    deepspeed, torch = (
        priced("llama3-70b", "weights", runtime=runtimes()[name]).time.offload
        for name in ("deepspeed", "fsdp")
    )
    assert torch - deepspeed > 70.55e9 * (1.45e-9 - 0.25e-9) * 0.9


def test_a_search_puts_weights_on_the_host_where_nothing_fits_without() -> None:
    words = (
        "llama3-70b",
        "--hardware",
        "dgx-h100",
        "--gpus",
        "2",
        "--seq-len",
        "4096",
        "--global-batch",
        "2",
    )
    found = planner("search", *words, "--runtime", "deepspeed", "--format", "json")
    assert found.code == 0
    assert found.json["plans"][0]["plan"]["offload"] == "weights"


def test_an_explanation_tells_host_and_disks_apart(tmp_path: Path) -> None:
    saved = tmp_path / "plan.yaml"
    layout = ("--runtime", "deepspeed", "--zero", "3", "--offload", "nvme")
    planner("estimate", *JOB, *layout, "--save", str(saved))
    found = planner("explain", str(saved), "--format", "json").json["beside_step"]
    off = {one["place"]: one["what"] for one in found if one["what"].startswith("offloaded")}
    assert off == {
        "host": "offloaded gradients, pinned buffers",
        "disk": "offloaded optimizer states, weights",
    }


def test_a_quantised_base_on_the_host_is_counted_there() -> None:
    """Frozen weights of 4 bits and their scales, 0.53 bytes each, once on the node for its two shards.

    Three in four are of 28,672 columns, whose 58.7 MB on a rank take a pinned block of 67.1.
    """
    work = Workload(seq_len=1024, global_batch=2, precision="bf16", method="qlora")
    job = Job(load_model("llama2-70b"), load_hardware("rtx4090-8-pcie"), 2, work)
    plan = Plan(dp=2.0, zero=3, zero_shards=2.0, recompute="full", offload="weights")
    answer = estimate(plan, job, runtimes()["fsdp"])
    held = host_states(plan, case_of(plan, job, runtimes()["fsdp"]))
    assert sum(held.values()) == pytest.approx(0.53 * (1 + 0.8 * 0.143) * 68.98e9, rel=0.06)
    assert answer.peak <= answer.capacity
    assert answer.time.offload > 0


def test_qlora_with_parameters_on_the_host_is_read(tmp_path: Path) -> None:
    """peft, docs/source/accelerate/fsdp.md: 70B on two cards of 24 GB, ``fsdp_offload_params: true``."""
    (tmp_path / "q.yaml").write_text(
        "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\nmixed_precision: bf16\n"
        "num_processes: 2\nfsdp_config: {fsdp_offload_params: true, fsdp_sharding_strategy: FULL_SHARD}\n",
        encoding="utf-8",
    )
    (tmp_path / "run.sh").write_text(
        "accelerate launch --config_file q.yaml train.py --model_name_or_path meta-llama/Llama-2-70b-hf "
        "--use_4bit_quantization --use_peft_lora --max_seq_length 2048 --per_device_train_batch_size 2 "
        "--gradient_accumulation_steps 4 --gradient_checkpointing --bf16\n",
        encoding="utf-8",
    )
    done = planner(
        "estimate", "--from", str(tmp_path / "run.sh"), "--hardware", "rtx4090", "--format", "json"
    )
    assert (done.code, done.json["plan"]["offload"], done.json["feasible"]) == (0, "weights", True)
