"""Reinforcement learning held to what papers print, and generation to one that is played by answers."""

from __future__ import annotations

import heapq
import json
import random
from itertools import product

import pytest

from planner.cost.estimate import estimate
from planner.cost.rollout import Answers, Generator, best_engine, cache_bytes
from planner.formulas.post_training import generation_seconds, push_seconds, reshard_share
from planner.inputs.load import load_model
from planner.inputs.load_hardware import load_hardware
from planner.inputs.workload import Workload
from planner.plan import Plan
from planner.runtimes import runtimes
from planner.runtimes.family import Job
from planner.search.post_training import forward_seconds
from tests.cases import every
from tests.cli.command import planner

DGX = load_hardware("dgx-h100")


@every(("name", "kilobytes"), [("deepseek-v3", 70.272), ("qwen2.5-72b", 327.68), ("llama3.1-405b", 516.096)])
def test_the_cache_of_a_token_is_what_deepseek_prints(name: str, kilobytes: float) -> None:
    """arXiv:2505.09343, table 1."""
    assert cache_bytes(load_model(name), 1.0) == kilobytes * 1e3


@every(("tp", "pp", "engine"), [*product((1, 2, 4, 8), (1, 2, 4), (1, 2, 4, 8))])
def test_weights_that_a_rank_gets_are_those_of_hybridflow(tp: int, pp: int, engine: int) -> None:
    """arXiv:2409.19256, table 2, where the engine's degree divides training's; and for all by counting."""
    layers, parts = 4, 8
    needs = {(layer, part) for layer in range(layers) for part in range(parts // engine)}
    has = {(layer, part) for layer in range(layers // pp) for part in range(parts // tp)}
    assert reshard_share(tp, pp, engine) == len(needs - has) / (layers * parts)
    if tp % engine == 0:
        assert reshard_share(tp, pp, engine) == pytest.approx((tp * pp - engine) / (engine * tp * pp))


@every("engine", [16, 32, 64, 128])
def test_links_alone_take_less_than_transferengine_prints(engine: int) -> None:
    """A trillion weights of 8 bit, from 256 to 128 ranks: 1.3 s with preparation (arXiv:2510.27656)."""
    assert 0.1 < push_seconds(1e12, 256, 128, engine, 50e9, 1e-5) < 1.3


@every(("tokens", "milliseconds", "off"), [(1024, 53.7, 0.2), (8192, 356.0, 0.1)])
def test_a_forward_pass_takes_what_tokenweave_measured(tokens: int, milliseconds: float, off: float) -> None:
    """Llama 3.3 70B on eight H100, vLLM without overlap (arXiv:2505.11329, figure 11a by its table).

    The shorter one waits for training's host, which an engine's graphs spare.
    """
    job = Job(load_model("llama3-70b"), DGX, 8, Workload(seq_len=tokens, global_batch=1))
    answer = estimate(Plan(tp=8.0), job, runtimes()["megatron-lm"])
    assert 1e3 * forward_seconds(answer) == pytest.approx(milliseconds, rel=off)


@every(("answers", "places", "longest"), [(64, 64, 200), (300, 64, 200), (640, 64, 400)])
def test_generation_is_near_one_played_answer_by_answer(answers: int, places: int, longest: int) -> None:
    """A token takes as long as there are sequences; lengths follow the law, a free place is taken at once."""
    mean, drawn = 100, random.Random(0)

    def played() -> float:
        shape = longest / mean - 1
        lengths = [longest * (1 - drawn.random() ** (1 / shape)) for _ in range(answers)]
        running: list[float] = []
        seconds = token = 0.0
        while lengths or running:
            while lengths and len(running) < places:
                heapq.heappush(running, token + lengths.pop())
            until = running[0]
            seconds += (until - token) * (1.0 + len(running) / places)
            token = heapq.heappop(running)
        return seconds

    told = generation_seconds(answers, places, mean, longest, lambda sequences, _: 1.0 + sequences / places)
    assert told == pytest.approx(sum(played() for _ in range(40)) / 40, rel=0.12)


def test_an_engine_holds_its_weights_and_cache_within_its_share() -> None:
    answers = Answers(512, 8, 512, 2048, 8192)
    model = load_model("llama3-70b")
    assert not Generator(model, DGX.pool, 64, 1, answers).fits
    best = best_engine(model, DGX.pool, 64, answers)
    assert best is not None
    held = best.weight_bytes + best.at_once * cache_bytes(model, answers.tokens) / best.ranks
    assert held <= 0.9 * DGX.pool.accelerator.memory_usable
    again = Generator(model, DGX.pool, 64, best.ranks, Answers(512, 8, 512, 2048, 2048))
    assert again.seconds < best.seconds


def test_the_command_tells_placements_on_one_screen() -> None:
    """Side by side the slower of the two decides (LlamaRL, arXiv:2505.24034), in turn all add up."""
    ask = ("rl", "llama3.2-1b", "--hardware", "8xh100", "--prompts", "64", "--answer-len", "1K")
    done = planner(*ask)
    assert done.code == 0
    assert len(done.out.splitlines()) <= 20
    assert all(len(line) <= 80 for line in done.out.splitlines())
    told = json.loads(planner(*ask, "--format", "json", "-q").out)["placements"]
    steps = [one["step_time_s"] for one in told]
    assert steps == sorted(steps)
    for one in told:
        parts = (one["generate_s"], one["score_s"] + one["train_s"])
        together = max(parts) if one["apart"] else sum(parts)
        assert one["step_time_s"] == pytest.approx(together + one["weights_s"])
        assert one["gpus_generate"] + one["gpus_train"] == (8 if one["apart"] else 16)


def test_another_cluster_may_generate_for_all_that_train() -> None:
    """Echo (arXiv:2508.05387): the slower of two pools decides, and the bill is that of both."""
    ask = ("rl", "llama3.2-1b", "--hardware", "8xh100", "--prompts", "64", "--answer-len", "1K", "-q")
    rows = json.loads(planner(*ask, "--generate-on", "mi300x-8:8", "--format", "json").out)["placements"]
    (one,) = [row for row in rows if row["gpus_train"] == 8 and row["apart"]]
    longest = max(one["generate_s"], one["score_s"] + one["train_s"])
    assert one["step_time_s"] == pytest.approx(longest + one["weights_s"])
    prices = [float(load_hardware(name).pool.price_per_hour or 0.0) for name in ("dgx-h100", "mi300x-8")]
    assert one["cost_usd_per_step"] == pytest.approx(8 * sum(prices) * one["step_time_s"] / 3600)
    for wrong in ("mi300x-8", "nowhere:8", "mi300x-8:none"):
        assert planner(*ask, "--generate-on", wrong).code == 2


def test_where_nothing_fits_and_faults_are_told() -> None:
    done = planner("rl", "llama3-70b", "--hardware", "rtx4090", "--gpus", "1", "-q")
    assert (done.code, done.out.startswith("No placement fits")) == (1, True)
    done = planner("rl", "llama3.2-1b", "--hardware", "h100", "--answer-len", "2K", "--longest", "1K")
    assert (done.code, "--longest" in done.err) == (2, True)
