"""Seeded random jobs and plans for the runtimes on Megatron-core, legal and not."""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections.abc import Iterator
from typing import Any

from planner.inputs.model import Experts, ModelSpec
from planner.plan import Plan
from planner.rules import Violation, structural_rules, violations
from planner.runtimes.family import Job, Runtime
from planner.runtimes.settings import ANY, NO_CHANGES, Changes
from planner.techniques.settings import SETTINGS
from tests.validate.megatron import cases
from tests.validate.numerics import drawn

MODELS = (
    "gpt2", "gpt3-175b", "llama3-8b", "llama3-70b", "llama3.1-405b",
    "llama2-7b", "qwen2.5-7b", "qwen3-8b", "qwen3-32b", "qwen3-30b-a3b",
    "qwen3-235b-a22b", "mixtral-8x7b", "mixtral-8x22b", "deepseek-v2", "deepseek-v3",
    "gpt-oss-120b",
)  # fmt: skip
GPUS = (1, 2, 3, 4, 6, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512, 768, 1024, 2048, 4096, 8192, 16384)
RECOMPUTES = (
    "none", "none", "full", "full:2", "full:4", "selective", "selective:norm+core_attn", "selective:mlp",
    "selective:moe", "selective:moe_act+norm", "selective:shared_experts",
)  # fmt: skip
OFFLOADS = ("none", "none", "none", "none", "optimizer", "activations:3", "activations:24")
PRECISIONS = ("bf16", "bf16", "bf16", "fp16", "fp8", "fp8-block", "mxfp8", "nvfp4")
METHODS: tuple[dict[str, Any], ...] = (
    {}, {}, {}, {}, *({"method": "lora", "lora_rank": rank} for rank in (12, 16, 64)),
)  # fmt: skip
MOST_TOKENS = 500_000_000
"""Of a step that is read; at most. [token]"""

LENGTHS = (1024, 2048, 4096, 6144, 8192, 32768)


def _divisors(whole: int, most: int) -> list[int]:
    return [degree for degree in range(1, min(whole, most) + 1) if whole % degree == 0]


def _experts(model: ModelSpec) -> int:
    counts = [block.ffn.experts for block in model.blocks.values() if isinstance(block.ffn, Experts)]
    return counts[0] if counts else 1


def random_case(dice: random.Random) -> tuple[Job, Plan]:
    """Return a job and a plan whose degrees make up cluster and batch; the runtime may yet refuse it."""
    model, gpus = drawn(cases.model(dice.choice(MODELS)), dice), dice.choice(GPUS)
    tp = dice.choice(_divisors(gpus, 16))
    pp = dice.choice(_divisors(gpus // tp, 16))
    cp = dice.choice([1, 1, *_divisors(gpus // tp // pp, 8)])
    mesh = gpus // pp
    dp, experts = mesh // tp // cp, _experts(model)
    etp = dice.choice([1, 1, *_divisors(mesh, 4)]) if experts > 1 else 1
    ep = dice.choice([degree for degree in _divisors(mesh // etp, 128) if experts % degree == 0])
    vpp = dice.choice((1, 1, 2, 3, 5)) if pp > 1 else 1
    plan = Plan(
        tp=float(tp),
        pp=float(pp),
        vpp=float(vpp),
        cp=float(cp),
        ep=float(ep),
        etp=float(etp),
        dp=float(dp),
        zero_shards=float(dp * cp // dice.choice([1, 1, 1, *_divisors(dp * cp, 4)])),
        micro_batch=float(dice.choice((1, 1, 2, 4))),
        num_microbatches=float(dice.choice((1, 2, 3, pp, 2 * pp, 4 * pp, 4 * pp + 1, 6 * pp, 37))),
        zero=dice.choice((0, 1, 1, 1, 2, 3)),
        recompute=dice.choice(RECOMPUTES),
        sequence_parallel=dice.random() < 0.7,
        cp_method=dice.choice(("ring", "all-gather", "all-to-all")),
        schedule="interleaved-1f1b" if vpp > 1 else "1f1b",
        offload=dice.choice(OFFLOADS),
        stage_layers=_uneven(dice, model, pp * vpp) if dice.random() < 0.3 else None,
    )
    plan = plan if plan.zero else dataclasses.replace(plan, zero_shards=1.0)
    return _job(dice, model, gpus, plan), plan


def _job(dice: random.Random, model: ModelSpec, gpus: int, plan: Plan) -> Job:
    precision = dice.choice(PRECISIONS)
    longest = model.max_positions if model.learned_positions and model.max_positions else LENGTHS[-1]
    batch = int(plan.micro_batch * plan.num_microbatches * plan.dp)
    longest = min(longest, max(LENGTHS[0], MOST_TOKENS // batch))
    return cases.job(
        model,
        gpus,
        hardware=_cluster(dice, precision, gpus),
        seq_len=dice.choice([length for length in LENGTHS if length <= longest]),
        global_batch=batch,
        precision=precision,
        **dice.choice(METHODS),
    )


def _cluster(dice: random.Random, precision: str, gpus: int) -> str:
    """Return a cluster that has a precision and is filled by nodes: of four and eight, NVIDIA's and AMD's."""
    if precision in ("mxfp8", "nvfp4"):
        known: tuple[str, ...] = ("dgx-b200", "gb200-nvl72")
    elif precision in ("bf16", "fp16"):
        known = ("dgx-h100", "dgx-h100", "gh200-quad", "mi300x-8", "p4d.24xlarge")
    else:
        known = ("dgx-h100", "gh200-quad")
    sizes = {name: cases.cluster(name).pool.gpus_per_node for name in known}
    return dice.choice([name for name in known if gpus <= sizes[name] or gpus % sizes[name] == 0])


def _uneven(dice: random.Random, model: ModelSpec, stages: int) -> tuple[int, ...] | None:
    """Return a split at random, at times with prediction layers and the loss on stages of their own."""
    layers, bare = model.num_layers, 2 if model.prediction and stages > 2 and dice.random() < 0.5 else 0
    if stages - bare > layers:
        return None
    cuts = sorted(dice.sample(range(1, layers), stages - bare - 1))
    split = (end - start for start, end in zip([0, *cuts], [*cuts, layers], strict=True))
    return (*split, *[0] * bare)


SIZE = 2e8
"""Stands for any number that a setting takes. [element]"""


def settings(runtime: Runtime) -> Iterator[Changes]:
    """Yield without end: no changed trait, each value that files can set, and all searched ones together."""
    one = [
        {name: SIZE if value == ANY else value}
        for name, values in runtime.settings.items()
        for value in values
    ]
    known = [SETTINGS[name] for name in runtime.searched]
    wholes = [
        {name: word for values in chosen for name, word in values.items()}
        for chosen in itertools.product(*(setting.values.values() for setting in known))
    ]
    plain = runtime.traits.flat()
    several = [{name: word for name, word in whole.items() if plain[name] != word} for whole in wholes]
    random.Random(len(several)).shuffle(several)
    mixed = itertools.chain(*itertools.zip_longest(one, several, fillvalue=NO_CHANGES))
    return itertools.cycle([NO_CHANGES, *mixed])


def broken(job: Job, plan: Plan, runtime: Runtime) -> tuple[Violation, ...]:
    """Return the rules that a plan breaks, those that hold for any runtime included."""
    structural = structural_rules(plan, job.model, job.workload, job.gpus, runtime.bare_ends)
    return violations([*structural, *runtime.rules(plan, job)])


def legal_plans(seed: int, count: int, runtime: Runtime) -> Iterator[tuple[Job, Plan]]:
    """Yield ``count`` random plans that break no rule."""
    dice = random.Random(seed)
    while count:
        job, plan = random_case(dice)
        if not broken(job, plan, runtime):
            count -= 1
            yield job, plan


def illegal_plans(seed: int, count: int, runtime: Runtime) -> Iterator[tuple[Job, Plan, str]]:
    """Yield ``count`` plans that break exactly one rule, and its name; no rule takes more than its share."""
    dice, seen = random.Random(seed), dict[str, int]()
    while count:
        job, plan = _spoiled(dice, *random_case(dice))
        names = {fault.rule for fault in broken(job, plan, runtime)}
        if len(names) != 1 or seen.get(name := names.pop(), 0) > min(seen.values(), default=0) + 6:
            continue
        seen[name] = seen.get(name, 0) + 1
        count -= 1
        yield job, plan, name


def _spoiled(dice: random.Random, job: Job, plan: Plan) -> tuple[Job, Plan]:
    """Change one thing of a plan for the worse, at times."""
    work, choice = job.workload, dice.randrange(8)
    if choice == 0:
        plan = dataclasses.replace(plan, tp=plan.tp + dice.choice((1, 2)))
    elif choice == 1:
        plan = dataclasses.replace(plan, ep=plan.ep * dice.choice((3, 5)))
    elif choice == 2:
        work = work.model_copy(update={"global_batch": work.global_batch + 1})
    elif choice == 3:
        work = work.model_copy(update={"seq_len": work.seq_len - dice.choice((1, 4, 6))})
    elif choice == 4:
        plan = dataclasses.replace(plan, pp=plan.pp + 1)
    return dataclasses.replace(job, workload=work), plan
