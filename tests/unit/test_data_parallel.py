"""What data parallelism sends in a step, and what is left of its time, by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from planner.cost.case import Case, case_of
from planner.cost.estimate import estimate
from planner.cost.memory.weights import StageWeights
from planner.cost.step.step_end import optimizer_seconds
from planner.cost.traffic.data_parallel import (
    DataTraffic,
    ShardGroup,
    data_parallel_seconds,
    data_parallel_sent,
    groups,
    traffic_of,
)
from planner.cost.traffic.sharing import stepped_elements
from planner.plan import Plan
from planner.techniques.engines import ENGINES
from tests.cases import every
from tests.unit.cost_jobs import MODELS, job, plan_of, runtime

PARAMS = 1e9
ENDLESS = 1e9


def weights(experts: float = 0.0, stored: float = 2 * PARAMS) -> StageWeights:
    return StageWeights(stored, 2 * experts, PARAMS, experts)


def traffic(case: Case, plan: Plan) -> DataTraffic:
    return traffic_of(case, groups(case, plan, weights()))


def setting(
    traits: dict[str, Any] | None = None,
    workload: dict[str, Any] | None = None,
    model: str = "dense",
    **fields: Any,
) -> tuple[Case, Plan]:
    work = job(MODELS[model], 16, **(workload or {}))
    plan = plan_of(work, **fields)
    return case_of(plan, work, runtime(**(traits or {}))), plan


def sent(zero: int, experts: float = 0.0, **fields: Any) -> float:
    case, plan = setting(zero=zero, **fields)
    return float(data_parallel_sent(case, plan, weights(experts)))


def test_whole_replicas_reduce_once_a_step_however_many_passes() -> None:
    """PyTorch DDP, arXiv:2006.15704, sec. 3.2.4: passes that accumulate synchronise nothing."""
    assert sent(0, micro_batch=1) == sent(0, micro_batch=2) == pytest.approx(15 / 16 * 8 * PARAMS)


@every("zero", [0, 1, 2])
def test_volume_of_the_first_stages(zero: int) -> None:
    """arXiv:1910.02054, sec. 7: 2 Psi, a reduce-scatter and an all-gather; here 4 and 2 bytes an element.

    Where gradients are sharded they are reduced in every pass: here one.
    """
    fields = {"micro_batch": 2}
    gathered = 2 if zero else 4
    assert sent(zero, **fields) == pytest.approx(15 / 16 * (4 + gathered) * PARAMS)


def test_volume_of_the_third_stage() -> None:
    """3 Psi: two gathers and one reduction, each pass (sec. 7.2.2)."""
    once = 15 / 16 * (2 + 2 + 4) * PARAMS
    assert sent(3, micro_batch=2) == pytest.approx(once)
    assert sent(3, micro_batch=1) == pytest.approx(2 * once)


AT_REST = {"engine": "fsdp1"}


@every(("zero", "each"), [(2, 2 + 4), (3, 2 + 2 + 4)])
def test_fsdp_gathers_and_reduces_in_every_pass(zero: int, each: int) -> None:
    """PyTorch's FSDP2 without a pipeline: ``reshard_after_forward=False`` spares backward's gather alone."""
    for micro_batch in (1, 2):
        case, plan = setting(AT_REST, zero=zero, micro_batch=micro_batch)
        passes = 2 // micro_batch
        nbytes = float(data_parallel_sent(case, plan, weights()))
        assert nbytes == pytest.approx(15 / 16 * passes * each * PARAMS)


@every(("zero", "each", "once"), [(2, 0, 2 + 4), (3, 2, 4)])
def test_a_pipeline_of_fsdp_stages_reduces_once(zero: int, each: int, once: int) -> None:
    """torch/distributed/pipelining/stage.py: no reduction and no resharding until the last backward."""
    case, plan = setting(AT_REST, zero=zero, pp=2, micro_batch=1)
    assert plan.num_microbatches == 4
    expected = 7 / 8 * (4 * each + once) * PARAMS
    assert data_parallel_sent(case, plan, weights()) == pytest.approx(expected)


def test_a_pipeline_of_fsdp_stages_pays_seconds_once() -> None:
    """ZeRO-2: with nothing hidden, seconds for each byte are the same however many passes a step has.

    What a step sends does not depend on its micro-batches either, so that many plans share it.
    """
    traits = AT_REST | {"dp_exposed": 1.0, "sharded_exposed": 1.0, "hidden_collective_traffic": 0.0}
    seconds = []
    for micro_batch in (1, 2, 4):
        case, plan = setting(traits, zero=2, pp=2, micro_batch=micro_batch)
        sent = traffic(case, plan)
        assert sent.gather > 0
        seconds.append(float(data_parallel_seconds(case, plan, sent, 0.0, 0.0)))
        assert seconds[-1] == pytest.approx(float(sent.gather + sent.reduce))
    assert seconds == [seconds[0]] * 3


@every(("zero", "pp", "gathers", "reductions"), [(2, 1, 4, 4), (3, 1, 4, 4), (2, 2, 1, 1), (3, 2, 4, 1)])
def test_fsdp_s_seconds_by_hand(zero: int, pp: int, gathers: int, reductions: int) -> None:
    """Gathers of 3 s and reductions of 5 in four passes: a pipeline's reductions wait for its end."""
    traits = AT_REST | {"dp_exposed": 1.0, "sharded_exposed": 1.0, "hidden_collective_traffic": 0.0}
    case, plan = setting(traits, {"global_batch": 64 // pp}, zero=zero, pp=pp)
    assert plan.num_microbatches == 4
    sent = replace(traffic(case, plan), gather=3.0, reduce=5.0)
    seconds = float(data_parallel_seconds(case, plan, sent, 0.0, 0.0))
    assert seconds == gathers * 3.0 + reductions * 5.0


def test_frozen_weights_are_gathered_as_they_are_stored() -> None:
    """LoRA under ZeRO-3: a billion adapter weights learn, ten billion frozen ones travel in 16 bit, twice."""
    case, plan = setting(workload={"method": "lora"}, zero=3, micro_batch=2)
    nbytes = float(data_parallel_sent(case, plan, weights(stored=2 * PARAMS + 20e9)))
    assert nbytes == pytest.approx(15 / 16 * (2 * (2 * PARAMS + 20e9) + 4 * PARAMS))


def test_gradients_reduced_in_16_bit() -> None:
    work = {"traits": {"reduce_dtype": "bf16"}}
    assert sent(0, micro_batch=2, **work) == pytest.approx(15 / 16 * 4 * PARAMS)


def test_hybrid_sharding_reduces_shards_among_replicas() -> None:
    """arXiv:2304.11277, sec. 3.2.2: across groups only an all-reduce of each shard."""
    inside = 3 / 4 * (2 + 2 + 4) * PARAMS
    across = 2 * 3 / 4 * 4 * PARAMS / 4
    assert sent(3, micro_batch=2, zero_shards=4) == pytest.approx(inside + across)


def test_experts_are_shared_by_fewer_ranks() -> None:
    dense = 15 / 16 * (4 + 2) * PARAMS
    assert sent(1, 2e9, model="experts", ep=8, micro_batch=2) == pytest.approx(dense + 1 / 2 * (4 + 2) * 2e9)


def test_one_rank_sends_nothing() -> None:
    case, plan = setting(zero=0, tp=8, pp=2)
    assert data_parallel_sent(case, plan, weights()) == 0
    assert data_parallel_seconds(case, plan, traffic(case, plan), 1.0, 1.0) == 0


@every("zero", [0, 1, 2, 3])
def test_a_long_window_leaves_the_share_that_nothing_hides(zero: int) -> None:
    def exposed(window: float, share: float) -> float:
        traits = {"dp_exposed": share, "sharded_exposed": 0.0, "hidden_collective_traffic": 0.0}
        case, plan = setting(traits, zero=zero, micro_batch=2)
        return float(data_parallel_seconds(case, plan, traffic(case, plan), window, window))

    alone = exposed(0.0, 1.0)
    assert alone > 0
    assert exposed(ENDLESS, 1.0) == alone == exposed(0.0, 0.25)
    assert exposed(ENDLESS, 0.25) == pytest.approx(0.25 * alone)
    assert exposed(ENDLESS, 0.0) == 0


@every("recompute", ["none", "full"])
def test_gradients_hide_behind_backward_and_stepped_weights_behind_forward(recompute: str) -> None:
    """With windows of half of either traffic, half of it shows; backward is twice forward."""
    for field, part in (("reduce", 2 / 3), ("gather", 1 / 3)):
        case, plan = setting({"dp_exposed": 0.0}, zero=1, micro_batch=2, recompute=recompute)
        sent = replace(traffic(case, plan), reduce=0.0, gather=0.0)
        micro = 0.5 / part
        shown = data_parallel_seconds(case, plan, replace(sent, **{field: 1.0}), micro, micro)
        assert float(shown) == pytest.approx(0.5)


def test_sharded_parameters_are_exposed_at_least_so_much() -> None:
    seconds = {}
    for zero in (2, 3):
        for share in (0.0, 0.3):
            case, plan = setting({"dp_exposed": 0.1, "sharded_exposed": share}, zero=zero, micro_batch=2)
            seconds[zero, share] = float(
                data_parallel_seconds(case, plan, traffic(case, plan), ENDLESS, ENDLESS)
            )
    assert seconds[2, 0.3] == seconds[2, 0.0]
    assert seconds[3, 0.3] == pytest.approx(3 * seconds[3, 0.0])


def test_weights_sent_round_before_the_next_pass_hide_behind_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """As those of nanotron and InternEvo are, whose engines are alike but for that."""
    plain = ENGINES["distributed-optimizer"]
    waiting = replace(plain, gathers_at_once=True)
    for user in ("case", "stack"):
        monkeypatch.setattr(f"planner.cost.{user}.ENGINES", {plain.name: plain, "waiting": waiting})
    assert ENGINES["nanotron-zero"].gathers_at_once
    assert ENGINES["internevo-zero"].gathers_at_once

    def exposed(zero: int, waits: bool) -> tuple[float, float]:
        traits = {"dp_exposed": 0.25, "engine": "waiting" if waits else plain.name}
        case, plan = setting(traits, zero=zero, micro_batch=2)
        sent = traffic(case, plan)
        return float(data_parallel_seconds(case, plan, sent, ENDLESS, ENDLESS)), float(sent.gather)

    (hidden, gather), (waited, _) = exposed(1, False), exposed(1, True)
    assert gather > 0
    assert waited - hidden == pytest.approx(0.75 * gather)
    assert exposed(3, True) == exposed(3, False)
    assert exposed(0, True) == exposed(0, False)


BILLION = {"prefetch_elements": 5e7, "reuse_elements": 1e9}


def dense_group(
    traits: dict[str, Any], elements: float, recompute: str = "full", **fields: Any
) -> tuple[Case, Plan, ShardGroup]:
    """Return the group of 16 shards that hold a model of ``elements`` in 12 layers."""
    case, plan = setting(traits, zero=3, recompute=recompute, **({"micro_batch": 2} | fields))
    (group,) = groups(case, plan, StageWeights(2 * elements, 0.0, elements, 0.0))
    return case, plan, group


@every(
    ("layer", "recompute", "expected"),
    [(0.4e9, "full", 2.0), (1e9, "full", 2.5), (5e9, "full", 2.9), (5e9, "none", 2.0)],
)
def test_recompute_gathers_again_what_it_could_not_keep(
    layer: float, recompute: str, expected: float
) -> None:
    """DeepSpeed keeps what comes back within 1e9 weights: of a layer of 1e9, the half nearer its end."""
    group = dense_group(BILLION, 12 * layer, recompute)[2]
    assert group.gathers == pytest.approx(expected)
    assert dense_group({"reuse_elements": 0.0}, 12 * layer)[2].gathers == 2.0


@every(
    ("around", "method", "recompute", "gathered", "reduced"),
    [
        (False, "ring", "full", 2, 1),
        (True, "ring", "none", 2, 1),
        (True, "ring", "full", 3, 1),
        (False, "lightseq", "none", 2, 1),
        (False, "lightseq", "full", 6, 2),
        (True, "lightseq", "full", 6, 2),
    ],
)
def test_recompute_around_a_sharded_unit_gathers_it_again(
    around: bool, method: str, recompute: str, gathered: int, reduced: int
) -> None:
    """Counted in PyTorch 2.13's FSDP on two ranks of gloo, reentrant checkpoints, four layers.

    Plain or with the checkpoint inside 9 gathers and 5 reductions, the root's one among them; around each
    layer 13 and 5; around halves of two neighbours 25 and 9.
    """
    traits = {"checkpointing": "around-units" if around else "reentrant"}
    case, plan, group = dense_group(traits, PARAMS, recompute, micro_batch=4, cp=2, cp_method=method)
    assert (group.gathers, group.calls) == (gathered, reduced)
    expected = 15 / 16 * (gathered * 2 + reduced * case.reduce_bytes) * PARAMS
    assert float(data_parallel_sent(case, plan, weights())) == pytest.approx(expected)


@every(("layer", "pieces"), [(5e6, 1.2), (5e7, 12), (5e9, 84)])
def test_prefetch_buckets_never_cut_a_weight(layer: float, pieces: float) -> None:
    """Buckets of 5e7 elements, filled by whole weights; 12 layers have 84 products."""
    assert dense_group(BILLION, 12 * layer)[2].messages == pytest.approx(pieces)


@every("zero", [0, 1, 3])
def test_collectives_at_two_fifths_of_their_rate_take_five_halves_of_their_time(zero: int) -> None:
    """Latency and bandwidth alike, whatever is sharded, where nothing hides them."""
    seconds = []
    for share in (1.0, 0.4):
        case, plan = setting({"dp_exposed": 1.0, "dp_rate_share": share}, zero=zero, micro_batch=2)
        seconds.append(float(data_parallel_seconds(case, plan, traffic(case, plan), 0.0, 0.0)))
    assert seconds[1] == pytest.approx(2.5 * seconds[0])


def test_owners_of_whole_parameters_send_a_message_each() -> None:
    """Of 12 layers with 9 parameters each, 16 ranks own something: 16 rings of 15 hops in each direction.

    InternEvo's broadcasts (arXiv:2401.09149); beside one buffer, the latency of a ring counts 0.56 times 16
    in place of once (LL128's hop over Simple's is 1.9 to 3.4 us in NCCL's table).
    """
    seconds = []
    for engine in ("distributed-optimizer", "internevo-zero"):
        case, plan = setting({"dp_exposed": 1.0, "engine": engine}, zero=1, micro_batch=2)
        seconds.append(float(data_parallel_seconds(case, plan, traffic(case, plan), 0.0, 0.0)))
    nvlink, network = case.tiers
    ring = 14 * nvlink.latency + network.latency
    assert seconds[1] - seconds[0] == pytest.approx(2 * (16 * 1.9 / 3.4 - 1) * ring)


def test_an_all_reduce_over_two_nodes_by_hand() -> None:
    """Two nodes of eight H100: 15/16 of 4 GB twice at the rate of the slowest link."""
    case, plan = setting({"dp_exposed": 1.0}, zero=0, micro_batch=2)
    nvlink, network = case.tiers
    slowest = max(1 / nvlink.bandwidth, 1 / (8 * network.bandwidth))
    expected = 2 * 15 / 16 * 4 * PARAMS * slowest
    assert float(data_parallel_seconds(case, plan, traffic(case, plan), 0.0, 0.0)) == pytest.approx(
        expected, rel=0.02
    )


def test_an_all_reduce_before_a_sharded_step_sends_gradients_twice() -> None:
    """Cast to fp32 and all-reduced, 2 x 4 bytes a weight, then 2 to gather; without shards no other way."""
    traits = {"all_reduced_bytes": 4.0, "gradient_dtype": "bf16", "reduce_dtype": "bf16", "dp_exposed": 1.0}

    def ring(zero: int) -> tuple[float, float]:
        case, plan = setting(traits, zero=zero)
        seconds = float(data_parallel_seconds(case, plan, traffic(case, plan), 0.0, 0.0))
        return float(data_parallel_sent(case, plan, weights())), seconds * case.tiers[-1].bandwidth

    sent_bytes, _ = ring(1)
    assert sent_bytes == pytest.approx(15 / 16 * (2 * 4 + 2) * PARAMS)
    assert ring(0)[0] == pytest.approx(15 / 16 * (2 + 2) * PARAMS)
    assert ring(1)[1] / ring(0)[1] == pytest.approx(10 / 4, rel=0.01)


def test_the_optimizer_moves_its_states_through_memory() -> None:
    # 12 bytes of states both ways, 4 of gradient in, 2 of weight out: 30 bytes for each of a sixteenth.
    case, _ = setting(zero=1)
    seconds, offloaded = optimizer_seconds(case, PARAMS / 16, 8.0)
    assert seconds == pytest.approx(30 * PARAMS / 16 / case.kernels.memory_bandwidth)
    assert offloaded == 0


def test_an_offloaded_optimizer_runs_on_the_host() -> None:
    case, _ = setting(zero=1, offload="optimizer")
    seconds, offloaded = optimizer_seconds(case, PARAMS / 16, 8.0)
    shard = PARAMS / 16
    assert seconds == 0
    assert offloaded == pytest.approx(4 * shard / case.host_link + 8 * shard * 0.25e-9, rel=0.01)


def test_experts_have_their_own_share_of_the_optimizer() -> None:
    case, plan = setting(zero=1, model="experts", ep=8)
    both, dense = (stepped_elements(case, plan, weights(experts)) for experts in (2e9, 0.0))
    assert both - dense == 2e9 / 2


def test_replicas_of_hybrid_shards_are_on_other_nodes() -> None:
    """Eight shards inside a node, two replicas across: half a shard each way through one's own port."""
    traits = {"dp_exposed": 1.0, "dp_byte_seconds": 0.0, "hidden_collective_traffic": 0.0}
    case, plan = setting(traits, zero=1, zero_shards=8, micro_batch=2)
    nvlink, network = case.tiers
    inside = 7 / 8 * (4 + 2) * PARAMS / nvlink.bandwidth
    across = 2 * 1 / 2 * 4 * PARAMS / 8 / network.bandwidth
    exposed = float(data_parallel_seconds(case, plan, traffic(case, plan), 0.0, 0.0))
    assert exposed == pytest.approx(inside + across, rel=0.02)


def test_adapters_alone_travel_where_the_base_is_frozen() -> None:
    """LoRA of rank 8: gradients of rank times the widths of each linear layer, nothing else."""
    work = job(gpus=2, method="lora", lora_rank=8)
    widths = (2048 + 3072) + (2048 + 2048) + (2048 + 16384) + (8192 + 2048)
    adapters = 8 * 12 * widths
    sent = estimate(plan_of(work, zero=0), work, runtime()).sent
    assert sent.dp == 2 * 1 / 2 * 4 * adapters
