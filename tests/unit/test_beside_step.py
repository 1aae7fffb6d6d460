"""Memory beside the step and the longest sequence: hand arithmetic, brute force, and what can never be."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from planner.cost.estimate import Estimate, estimate
from planner.inputs.load import load_model
from planner.inputs.load_hardware import load_hardware
from planner.inputs.workload import Workload
from planner.plan import Plan
from planner.report.beside_step import BesideStep, beside_page
from planner.report.longest import longest_line, longest_sequence, with_sequence
from planner.report.waterfall import Anatomy
from planner.runtimes import runtimes
from planner.runtimes.family import Job
from planner.units import GIB
from tests.cases import every

PLANS = {
    "plain": Plan(dp=8.0, zero=1, zero_shards=8.0, num_microbatches=4.0),
    "sharded": Plan(dp=8.0, zero=3, zero_shards=8.0, num_microbatches=4.0),
    "recomputed": Plan(dp=8.0, zero=2, zero_shards=8.0, num_microbatches=4.0, recompute="full"),
    "stages": Plan(tp=2.0, pp=4.0, zero=1, num_microbatches=32.0, sequence_parallel=True),
    "offloaded": Plan(dp=8.0, zero=1, zero_shards=8.0, num_microbatches=4.0, offload="optimizer"),
}


def priced(name: str, model: str = "llama3-8b", seq_len: int = 4096) -> Estimate:
    work = Workload().model_copy(update={"global_batch": 32, "seq_len": seq_len})
    job = Job(load_model(model), load_hardware("dgx-h100"), 8, work)
    return estimate(PLANS[name], job, runtimes()["megatron-lm"])


@every("name", PLANS)
def test_evaluation_needs_the_states_and_never_more_than_training(name: str) -> None:
    answer = priced(name)
    told = BesideStep(Anatomy(answer))
    lasting = max(stage.weights + stage.optimizer for stage in answer.stages)
    assert lasting < told.evaluation <= answer.peak


def test_a_checkpoint_passes_all_states_of_the_node_through_its_memory() -> None:
    """2 bytes of weights on each of eight ranks, 12 bytes of states once over all of them."""
    answer = priced("plain")
    params = answer.job.model.params
    assert BesideStep(Anatomy(answer)).checkpoint == pytest.approx((8 * 2 + 12) * params, rel=0.001)


def test_offloaded_states_are_twelve_bytes_and_the_gradient_of_each_weight() -> None:
    answer = priced("offloaded")
    told = BesideStep(Anatomy(answer))
    assert told.states == pytest.approx((12 + 2) * answer.job.model.params, rel=0.001)
    assert [use.what for use in told.uses()][-1] == "offloaded optimizer states"
    names = [use.what.partition(",")[0] for use in BesideStep(Anatomy(priced("plain"))).uses()]
    assert names == ["evaluation", "evaluation", "a checkpoint"]


@every("name", ["plain", "sharded", "stages"])
def test_the_largest_pass_of_an_evaluation_fits_and_needs_no_less_than_one_of_training_s_size(
    name: str,
) -> None:
    """Held against a plan that trains with as many sequences in a pass, whose evaluation is told apart."""
    answer = priced(name)
    told = BesideStep(Anatomy(answer))
    most = told.evaluated_sequences
    assert most > 1
    assert told.evaluation <= told.evaluation_of(most) <= answer.capacity < told.evaluation_of(most + 1)
    ranks, passes = answer.plan.dp, answer.plan.num_microbatches
    work = answer.job.workload.model_copy(update={"global_batch": int(most * ranks * passes)})
    plan = replace(answer.plan, micro_batch=float(most))
    larger = estimate(plan, replace(answer.job, workload=work), answer.runtime)
    used = Anatomy(larger).parts.passes.nbytes
    tensors = max(float(np.max(used.one_layer + used.rebuilt)), float(np.max(used.loss)))
    lasting = min(stage.weights + stage.optimizer + stage.gradients for stage in answer.stages)
    assert told.evaluation_of(most) >= lasting + tensors


def test_offloaded_activations_wait_in_the_node_s_memory() -> None:
    """What eight ranks have no longer on their devices, four of 32 layers each, stands on the host."""
    plan = replace(PLANS["plain"], offload="activations:4")
    kept, gone = priced("plain"), estimate(plan, priced("plain").job, runtimes()["megatron-lm"])
    told = BesideStep(Anatomy(gone))
    moved = kept.stages[0].activations - gone.stages[0].activations
    assert told.activations == pytest.approx(8 * moved)
    assert 0 < told.activations < 8 * kept.stages[0].activations * 4 / 31
    assert [use.what for use in told.uses()][-1] == "offloaded activations"
    assert BesideStep(Anatomy(kept)).activations == 0


def test_a_node_with_too_little_memory_is_told() -> None:
    answer = priced("offloaded")
    pool = answer.job.hardware.pool
    node = pool.node.model_copy(
        update={"host_memory": pool.node.host_memory.__class__(100 * GIB, "100 GiB", "", "datasheet")}
    )  # type: ignore[union-attr]
    hardware = answer.job.hardware.model_copy(update={"pools": (pool.model_copy(update={"node": node}),)})
    small = replace(answer, job=replace(answer.job, hardware=hardware))
    assert "Mind: the host may not hold offloaded optimizer states." in beside_page(Anatomy(small))


@pytest.mark.parametrize("name", ["plain", "sharded", "stages"])
def test_the_longest_sequence_is_what_trying_each_finds(name: str) -> None:
    answer = priced(name)
    fits = [length for length in range(1024, 65536, 1024) if with_sequence(answer, length).feasible]
    assert longest_sequence(answer) == (max(fits) if fits else None)


def test_learned_positions_end_the_sequence_and_no_fit_is_said() -> None:
    small = priced("plain", "gpt2", 1024)
    assert longest_sequence(small) == 1024
    none = replace(priced("plain"), capacity=1 * GIB)
    assert longest_line(none) == "With this layout and batch nothing fits in a sequence (now 4,096)."
