"""What runs on some accelerators and links alone is refused elsewhere; files say what it needs to start."""

from __future__ import annotations

import numpy as np

from planner.cost.case import case_of
from planner.cost.estimate import estimate
from planner.cost.layer.communication import tensor_exposed
from planner.cost.settings import with_value
from planner.inputs.workload import Workload
from planner.plan import Plan
from planner.runtimes import runtimes
from planner.runtimes.family import Job
from planner.runtimes.settings import changed
from tests.cases import every
from tests.unit.cost_jobs import MODELS, cluster

OVERLAPS = {
    "megatron-lm": ("tp_overlap", "on"),
    "megatron-bridge": ("tp_overlap", "on"),
    "torchtitan": ("async_tp", "on"),
}
DISPATCHER = {"fused-dispatcher-runs"}


def asked(hardware: str, gpus: float, model: str = "dense") -> Job:
    return Job(MODELS[model], cluster(hardware), int(gpus), Workload(seq_len=4096, global_batch=512))


def tensor(tp: int, dp: int = 1, sequence_parallel: bool = True) -> Plan:
    sharded = {"zero": 1, "zero_shards": dp, "num_microbatches": 512 / dp}
    return Plan(tp=tp, dp=dp, sequence_parallel=sequence_parallel, **sharded)


@every("runtime", OVERLAPS)
@every(
    ("hardware", "tp", "runs"),
    [
        ("dgx-h100", 8, True),
        ("dgx-h100", 16, False),
        ("gb200-nvl72", 16, True),
        ("mi300x-8", 8, True),
        ("l40s-8-pcie", 2, False),
        ("rtx4090-8-pcie", 2, False),
        ("h100-pcie-8", 4, False),
        ("rtx3090-2-nvlink", 2, True),
    ],
)
def test_messages_beside_products_go_over_links_between_devices(
    runtime: str, hardware: str, tp: int, runs: bool
) -> None:
    """Elsewhere nothing overlaps, whatever is set: the same price, and nothing in the files."""
    job, plan = asked(hardware, tp), tensor(tp)
    setting, on = OVERLAPS[runtime]
    prices = [estimate(plan, job, with_value(runtimes()[runtime], setting, value)) for value in ("off", on)]
    assert (prices[0].time.tp_comm > prices[1].time.tp_comm) == runs
    assert (prices[0].time.tp_comm == prices[1].time.tp_comm) != runs


def test_prices_of_a_batch_overlap_where_each_plan_does() -> None:
    """Tensor parallelism of 8 and of 16 in one batch, as one by one."""
    job, runtime = asked("dgx-h100", 16), with_value(runtimes()["megatron-lm"], "tp_overlap", "on")
    assert job.hardware.pool.joins(np.array([8.0, 16.0])).tolist() == [True, False]
    case = case_of(tensor(8, 2), job, runtime)
    assert tensor_exposed(case, np.array([8.0, 16.0])).tolist() == [0.25, 1.0]


@every("runtime", ["megatron-lm", "megatron-bridge"])
@every(("tp", "says"), [(8, True), (16, False)])
def test_files_overlap_where_the_price_does(runtime: str, tp: int, says: bool) -> None:
    plain = runtimes()[runtime]
    assert plain.command is not None
    changes = changed(with_value(plain, "tp_overlap", "on").traits, plain.traits)
    made = plain.command(tensor(tp), asked("dgx-h100", tp), plain.versions[0], changes)
    text = " ".join(made.program) + "".join((made.files or {}).values())
    said = "--tp-comm-overlap" in text if runtime == "megatron-lm" else "tp_comm_overlap=False" not in text
    assert said == says


@every("sequence_parallel", [True, False])
def test_overlap_that_is_asked_for_over_pcie_is_told_as_left_out(sequence_parallel: bool) -> None:
    plan = tensor(2, dp=4, sequence_parallel=sequence_parallel)
    answer = estimate(
        plan, asked("l40s-8-pcie", 8), with_value(runtimes()["megatron-lm"], "tp_overlap", "on")
    )
    ((name, value, reason),) = answer.left_out
    assert (name, value) == ("tp_overlap", "on")
    assert ("NVLink" in reason) == sequence_parallel


def broken(setting: tuple[str, str], plan: Plan, job: Job) -> set[str]:
    return {
        fault.rule
        for fault in estimate(plan, job, with_value(runtimes()["megatron-lm"], *setting)).violations
    }


@every(
    ("hardware", "ep", "runs"),
    [
        ("dgx-h100", 8, True),
        ("dgx-h100", 16, True),
        ("dgx-a100-80gb", 8, True),
        ("dgx-a100-80gb", 16, False),
        ("l40s-8-pcie", 2, False),
        ("h100-pcie-8", 2, False),
        ("a3-highgpu-8g", 8, True),
        ("a3-highgpu-8g", 16, False),
        ("p5.48xlarge", 16, True),
    ],
)
def test_fused_dispatchers_send_over_nvlink_and_from_hopper_on_to_other_nodes(
    hardware: str, ep: int, runs: bool
) -> None:
    plan = Plan(dp=ep, ep=ep, zero=1, zero_shards=ep, num_microbatches=512 / ep)
    found = broken(("expert_dispatcher", "fused"), plan, asked(hardware, ep, "experts"))
    assert bool(DISPATCHER & found) != runs


@every(
    ("hardware", "precision", "runs"),
    [
        ("l40s-8-pcie", "fp8", True),
        ("l40s-8-pcie", "fp8-block", False),
        ("dgx-h100", "fp8-block", True),
        ("dgx-b200", "mxfp8", True),
        ("rtx-pro-6000-8-pcie", "mxfp8", False),
        ("rtx-pro-6000-8-pcie", "nvfp4", True),
        ("mi300x-8", "fp8", True),
        ("mi300x-8", "fp8-block", False),
        ("mi355x-8", "mxfp8", True),
    ],
)
def test_low_bits_run_where_transformer_engine_runs_them(hardware: str, precision: str, runs: bool) -> None:
    work = Workload(seq_len=4096, global_batch=512, precision=precision)
    job, plan = Job(MODELS["dense"], cluster(hardware), 8, work), tensor(1, dp=8)
    for name in ("megatron-lm", "megatron-bridge"):
        found = {fault.rule for fault in estimate(plan, job, runtimes()[name]).violations}
        assert ("precision-on-accelerator" not in found) == runs
    if precision == "mxfp8" and runs:
        command = runtimes()["megatron-lm"].command
        assert command is not None
        asked = command(plan, job, "0.20").environment.get("NVTE_ROCM_ENABLE_MXFP8")
        assert (asked == "1") == hardware.startswith("mi")


def test_grouped_products_run_from_ampere_on() -> None:
    work = Workload(seq_len=4096, global_batch=512, precision="fp16")
    plan = Plan(dp=16, ep=8, zero=1, zero_shards=16, num_microbatches=32)
    for hardware, refused in (("dgx-2", True), ("dgx-a100-80gb", False)):
        job = Job(MODELS["experts"], cluster(hardware), 16, work)
        found = {fault.rule for fault in estimate(plan, job, runtimes()["megatron-lm"]).violations}
        assert ("grouped-products-run" in found) == refused


@every(("activation", "fused"), [(None, True), ("quick_gelu", True), ("gelu_tanh", False)])
def test_gated_experts_have_a_fused_activation_or_ask_for_none(activation: str | None, fused: bool) -> None:
    """Else Megatron-core raises in the first forward."""
    known = MODELS["experts"]
    model = known.model_copy(
        update={"numerics": known.numerics.model_copy(update={"activation": activation})}
    )
    job = Job(model, cluster("dgx-h100"), 16, Workload(seq_len=4096, global_batch=512))
    plan, bridge = (
        Plan(dp=16, ep=8, zero=1, zero_shards=16, num_microbatches=32),
        runtimes()["megatron-bridge"],
    )
    for runtime, legal in ((bridge, fused), (bridge.with_traits(fused_activation=False), True)):
        found = {fault.rule for fault in estimate(plan, job, runtime).violations}
        assert ("experts-fuse-activation" not in found) == legal


def variables(
    setting: tuple[str, str], plan: Plan, hardware: str, runtime: str, model: str = "dense"
) -> dict[str, str]:
    job = asked(hardware, plan.tp * plan.dp, model)
    plain = runtimes()[runtime]
    assert plain.command is not None
    changes = changed(with_value(plain, *setting).traits, plain.traits)
    return dict(plain.command(plan, job, plain.versions[0], changes).environment)


@every("runtime", ["megatron-lm", "megatron-bridge"])
@every(
    ("hardware", "setting", "asks"),
    [
        ("dgx-a100-80gb", ("tp_overlap", "on"), True),
        ("dgx-a100-80gb", ("tp_overlap", "off"), False),
        ("dgx-h100", ("tp_overlap", "on"), False),
        ("mi300x-8", ("tp_overlap", "on"), False),
    ],
)
def test_overlap_before_hopper_asks_for_memory_without_multicast(
    runtime: str, hardware: str, setting: tuple[str, str], asks: bool
) -> None:
    """Transformer Engine does not start else."""
    assert ("UB_SKIPMC" in variables(setting, tensor(4, dp=2), hardware, runtime)) == asks


@every(("ep", "told"), [(16, "16"), (8, "8")])
def test_hybrid_ep_is_told_which_ranks_nvlink_joins(ep: int, told: str) -> None:
    plan = Plan(dp=16, ep=ep, zero=1, zero_shards=16, num_microbatches=32)
    for runtime in ("megatron-lm", "megatron-bridge"):
        found = variables(("expert_dispatcher", "fused"), plan, "gb200-nvl72", runtime, "experts")
        assert found["NUM_OF_HYBRID_EP_RANKS_PER_NVLINK_DOMAIN"] == told
        assert (found["NVLINK_DOMAIN_SIZE"], found["USE_MNNVL"]) == ("72", "1")
        deep = variables(("expert_dispatcher", "fused"), plan, "dgx-h100", runtime, "experts")
        assert not [name for name in deep if "NVL" in name and name != "NCCL_NVLS_ENABLE"]
