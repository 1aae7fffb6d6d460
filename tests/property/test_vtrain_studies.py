"""What vTrain's case studies say: how large a model for a month, and by which curves jobs share a cluster."""

from __future__ import annotations

import numpy as np
import pytest

from planner.api import Job, Workload, estimate_plan, load_hardware, load_model
from planner.inputs.ladder import gpt_size
from planner.runtimes import runtimes
from planner.search.budget import Budget, Sizing, sized
from planner.search.request import SearchRequest
from planner.search.shares import LayerRun, Task, cost, planned, played
from planner.techniques.scaling_laws import SCALING_LAWS
from tests.deep import deep

DAY = 24 * 3600.0


@pytest.fixture(scope="module")
def month() -> Sizing:
    """Sizes of GPT-3's family on 3,360 A100 for 30 days, as plain pipelines with full recompute."""
    work = Workload(seq_len=2048, global_batch=1680)
    fixed = {"recompute": "full", "vpp": 1, "tp": 8}
    request = SearchRequest(
        gpt_size(8192), (load_hardware("dgx-a100-80gb"),), (3360,), work, (runtimes()["megatron-lm"],),
        fixed=fixed, top=1, uniform=True,
    )  # fmt: skip
    sizes = [gpt_size(width) for width in (8192, 9216, 10240, 11264, 12288)]
    return sized(request, sizes, Budget(days=30.0), SCALING_LAWS["chinchilla"])


def test_the_usual_rule_chooses_a_model_that_nobody_trains_in_a_month(month: Sizing) -> None:
    """arXiv:2312.12391: 145.61B on 2,912B tokens by 30 days of 3,360 A100 at their peak; really 2.8 times.

    The planner's A100 reach more than the paper's, so that it takes 2 to 2.84 times as long here.
    """
    assert month.at_peak == pytest.approx(145.61e9, rel=0.05)
    near = min(month.sizes, key=lambda one: abs(one.params - 145.61e9))
    needed = 20 * near.params / near.tokens * 30 * (145.61e9 / near.params) ** 2
    assert 2.0 * 30 < needed < 2.84 * 30


def test_the_size_that_a_month_trains_is_a_half_to_two_thirds_of_that(month: Sizing) -> None:
    """arXiv:2312.12391: 76.04B, 48% smaller, by the speed that is reached."""
    best = month.best
    assert best is not None
    assert 0.48 < best.params / month.at_peak < 0.75
    assert best.tokens == pytest.approx(30 * DAY / best.answer.step * 1680 * 2048)
    full = max(one.params for one in month.sizes if one.tokens >= 20 * one.params)
    assert full == pytest.approx(76.04e9, rel=0.05)


def curves(seed: int, jobs: int, linear: bool) -> list[Task]:
    """Return jobs on 64 accelerators by the planner's prices, or by those of eight made linear."""
    draw = np.random.default_rng(seed)
    found = []
    for number in range(jobs):
        steps, arrives = float(draw.uniform(2e3, 2e4)), float(draw.uniform(0, 2e4)) if number > 3 else 0.0
        due = float(draw.uniform(0.5, 2.0)) * 8e4
        known = STEPS[number % len(STEPS)]
        options = tuple(
            (gpus, steps * (known[8] * 8 / gpus if linear and gpus > 8 else time))
            for gpus, time in known.items()
        )
        found.append(Task(str(number), options, 1.0, arrives, due))
    return found


def _steps(model: str, batch: int) -> dict[int, float]:
    work = Workload(seq_len=2048, global_batch=batch)
    times = {}
    for gpus in (8, 16, 32, 64):
        job = Job(load_model(model), load_hardware("p4d.24xlarge"), gpus, work)
        times[gpus] = estimate_plan(job, "megatron-lm", zero=1).step
    return times


STEPS = [_steps("qwen2.5-1.5b", 64), _steps("qwen2.5-0.5b", 64), _steps("qwen2.5-1.5b", 128)]


def test_curves_of_real_plans_share_a_cluster_better_than_linear_ones() -> None:
    """arXiv:2312.12391: jobs of several tenants are done sooner where shares follow simulated throughput.

    Linear curves overstate large shares: the same jobs are planned by both and played by the real ones.
    """
    late, done = [], []
    for seed in range(deep(2, 4)):
        real, linear = curves(seed, 10, False), curves(seed, 10, True)
        for (_, mine), (_, said) in zip(real[0].options[1:], linear[0].options[1:], strict=True):
            assert mine > said
        own, wrong = planned(real, 64), as_real(planned(linear, 64), real)
        done.append(cost(own, "makespan") / cost(wrong, "makespan"))
        late.append((sum(run.late > 0 for run in own), sum(run.late > 0 for run in wrong)))
        assert cost(own, "completion") <= 1.02 * cost(wrong, "completion")  # a solver of limited time
    assert sum(own for own, _ in late) <= sum(wrong for _, wrong in late) + 1
    assert np.mean(done) < 1.0


def as_real(runs: tuple[LayerRun, ...], real: list[Task]) -> tuple[LayerRun, ...]:
    """Return runs in the same order with the same shares, each as long as it really takes."""
    numbers = {task.name: number for number, task in enumerate(real)}
    order = []
    for run in sorted(runs, key=lambda one: one.start):
        counts = [count for count, _ in real[numbers[run.task.name]].options]
        order.append((numbers[run.task.name], counts.index(run.gpus)))
    return played(real, order, 64)
