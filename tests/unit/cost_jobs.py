"""Jobs for the tests of cost and search: small models of each kind, small clusters, random plans."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from itertools import chain
from typing import Any, Final

import numpy as np

from planner import numeric
from planner.cost.case import case_of
from planner.cost.legal import degree_rules, pass_rules, technique_rules
from planner.inputs.hardware import HardwareProfile
from planner.inputs.load_hardware import load_hardware
from planner.inputs.model import ModelSpec
from planner.inputs.workload import Workload
from planner.plan import Plan
from planner.runtimes import runtimes
from planner.runtimes.family import Job, Runtime
from planner.techniques.context import CONTEXT_METHODS
from planner.techniques.offload import OFFLOADS
from planner.techniques.schedules import SCHEDULES

MHA: Final = {"kind": "attention", "heads": 16, "kv_heads": 16, "head_dim": 128}
GQA: Final = {"kind": "attention", "heads": 16, "kv_heads": 4, "head_dim": 128}
LATENT: Final = {
    "kind": "latent", "heads": 16, "q_lora_rank": 512, "kv_lora_rank": 512, "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64, "v_head_dim": 128,
}  # fmt: skip
DELTA: Final = {
    "kind": "gated-delta", "key_heads": 16, "value_heads": 32, "key_head_dim": 128, "head_dim": 128,
}  # fmt: skip
MAMBA: Final = {"kind": "mamba2", "heads": 64, "head_dim": 64, "groups": 8}
DENSE: Final = {"kind": "dense", "inner": 8192}
MOE: Final = {"kind": "moe", "experts": 8, "topk": 2, "inner": 2048, "shared_inner": 2048}


def model(name: str, blocks: dict[str, Any], layers: str, **fields: Any) -> ModelSpec:
    """Make a model of 2,048 hidden and 32,000 words."""
    common = {"hidden": 2048, "vocab": 32000, "tied_embeddings": False}
    return ModelSpec.model_validate({"name": name, "blocks": blocks, "layers": layers} | common | fields)


MODELS: Final = {
    "dense": model("dense", {"a": {"mixer": GQA, "ffn": DENSE}}, "12 a"),
    "tied": model("tied", {"a": {"mixer": MHA, "ffn": DENSE}}, "10 a", tied_embeddings=True),
    "experts": model("experts", {"a": {"mixer": GQA, "ffn": MOE}}, "12 a"),
    "latent": model(
        "latent",
        {"a": {"mixer": LATENT, "ffn": DENSE}, "b": {"mixer": LATENT, "ffn": MOE}},
        "2 a, 9 b",
        prediction={"layers": 1, "block": "b"},
    ),
    "two-sided": model(
        "two-sided", {"a": {"mixer": GQA, "beside": MAMBA | {"gated_norm": False}, "ffn": DENSE}}, "8 a"
    ),
    "sliding": model(
        "sliding",
        {"a": {"mixer": GQA | {"window": 512}, "ffn": DENSE}, "b": {"mixer": GQA, "ffn": DENSE}},
        "3 a, b, 3 a, b, 3 a, b",
    ),
    "delta": model(
        "delta",
        {"a": {"mixer": DELTA, "ffn": MOE}, "b": {"mixer": GQA | {"output_gate": True}, "ffn": MOE}},
        "3 x (3 a, b)",
    ),
    "parts": model(
        "parts",
        {
            "m": {"mixer": MAMBA, "norms": 1},
            "f": {"ffn": DENSE, "norms": 1},
            "e": {"ffn": MOE, "norms": 1},
            "t": {"mixer": GQA, "norms": 1},
        },
        "m, f, m, e, t, m, f, m, e, m, f, e",
    ),
}

BUILT: Final = tuple(name for name in MODELS if name != "two-sided")
"""Those that Megatron-core builds."""
"""One small model of each kind that the planner prices."""

GPT: Final = model(
    "gpt",
    {"a": {"mixer": MHA | {"rotary": False}, "ffn": {"kind": "dense", "inner": 8192, "gated": False}}},
    "4 a",
    norm="layernorm",
)
"""A GPT of 2020: multi-head attention, plain feed-forward of four times the width."""


@cache
def cluster(name: str) -> HardwareProfile:
    """Return a cluster that ships."""
    return load_hardware(name)


def job(
    model: ModelSpec = MODELS["dense"], gpus: int = 16, hardware: str = "dgx-h100", **workload: Any
) -> Job:
    """Return a job of 2,048 tokens and 32 sequences, unless ``workload`` says otherwise."""
    return Job(model, cluster(hardware), gpus, Workload(**({"seq_len": 2048, "global_batch": 32} | workload)))


@cache
def runtime(name: str = "megatron-lm", **traits: Any) -> Runtime:
    """Return a runtime, with some of its traits replaced.

    Models here are too small for a host's time, and for workspaces beside what is counted by hand.
    """
    known = runtimes()[name]
    return known.with_traits(**{"host_layer_seconds": 0.0, "product_workspaces": 0.0, **traits})


@cache
def any_runtime(**traits: Any) -> Runtime:
    """Return a runtime without rules of its own that offers every technique there is."""
    return replace(
        runtime(**traits),
        zero_stages=(0, 1, 2, 3),
        schedules=tuple(SCHEDULES),
        cp_methods=tuple(CONTEXT_METHODS),
        recomputes=("none", "selective", "full", "full:1", "selective:mlp+norm"),
        offloads=(
            *(name for name, entry in OFFLOADS.items() if entry.bare),
            *("activations:1", "modules:core_attn+attn_proj"),
        ),
        own_rules=lambda *_: [],
        pass_rules=lambda *_: [],
        setting_rules=lambda *_: [],
    )


def faster(job: Job, compute: float = 1.0, links: float = 1.0, memory: float = 1.0) -> Job:
    """Return the job on accelerators with so many times the FLOP/s, link rate and memory bandwidth."""
    pool = job.hardware.pool
    kernels = pool.accelerator.kernels
    changed = replace(
        kernels,
        gemm={
            name: replace(curve, rate=curve.rate * compute, bandwidth=curve.bandwidth * memory)
            for name, curve in kernels.gemm.items()
        },
        attention={
            size: replace(curve, rate=curve.rate * compute, backward_rate=curve.backward_rate * compute)
            for size, curve in kernels.attention.items()
        },
        experts={
            name: replace(
                curve,
                rate=curve.rate * compute,
                bandwidth=curve.bandwidth * memory,
                activation_bandwidth=curve.activation_bandwidth * memory,
            )
            for name, curve in kernels.experts.items()
        },
        memory_bandwidth=kernels.memory_bandwidth * memory,
    )
    tiers = tuple(
        replace(tier, bandwidth=tier.bandwidth * links, pair_bandwidth=tier.pair_bandwidth * links)
        for tier in pool.tiers
    )
    accelerator = pool.accelerator.model_copy(update={"kernels": changed})
    pool = pool.model_copy(update={"accelerator": accelerator})
    pool.__dict__["tiers"] = tiers
    return replace(job, hardware=job.hardware.model_copy(update={"pools": (pool,)}))


def plan_of(job: Job, **fields: Any) -> Plan:
    """Return a scalar plan for a job: dp, shards and micro-batches follow unless given."""
    named = {
        name: float(value) if isinstance(value, int) and name != "zero" else value
        for name, value in fields.items()
    }
    plan = Plan(**named)
    dp = job.gpus / (plan.tp * plan.pp * plan.cp)
    plan = replace(plan, dp=dp, num_microbatches=job.workload.global_batch / (plan.micro_batch * dp))
    shards = dp * plan.cp if plan.zero else 1.0
    return replace(plan, zero_shards=named.get("zero_shards", shards))


def is_legal(plan: Plan, job: Job, runtime: Runtime) -> bool:
    """Whether a scalar plan keeps every rule; those that most plans break are asked first."""
    if not all(numeric.all(rule.holds) for rule in degree_rules(plan, job, runtime)):
        return False
    case = case_of(plan, job, runtime)
    rules = chain.from_iterable(ask() for ask in (
        lambda: pass_rules(plan, case),
        lambda: technique_rules(plan, case),
        lambda: case.runtime.rules(plan, job),
    ))  # fmt: skip
    return all(numeric.all(rule.holds) for rule in rules)


def cuts_evenly(job: Job, degrees: Mapping[str, int]) -> bool:
    """Whether degrees pass what most break, so that few plans must be made to be refused."""
    replicas = job.gpus // (degrees["tp"] * degrees["pp"] * degrees["cp"])
    return (
        job.workload.global_batch % (replicas * degrees["micro_batch"]) == 0
        and (job.gpus // degrees["pp"]) % (degrees["ep"] * degrees["etp"]) == 0
        and (degrees["ep"] == 1 or bool(job.model.expert_kinds))
    )


def random_plans(job: Job, runtime: Runtime, count: int, seed: int, **fixed: Any) -> Iterator[Plan]:
    """Yield legal plans of a job, drawn from all degrees and all techniques of the runtime."""
    draw = np.random.default_rng(seed)

    def one(options: Any) -> Any:
        return options[int(draw.integers(len(options)))]

    powers = [2**power for power in range(int(np.log2(job.gpus)) + 1)]
    tries = 0
    while count and tries < 200_000:
        tries += 1
        degrees: dict[str, Any] = {
            "tp": one(powers),
            "pp": one((*powers, 3, 5)),
            "cp": one((1, 1, *powers)),
            "ep": one(powers),
        }
        degrees |= {"etp": one((1, 1, 2)), "micro_batch": one((1, 2, 4)), "vpp": one((1, 1, 2, 3))} | fixed
        if job.gpus % (degrees["tp"] * degrees["pp"] * degrees["cp"]):
            continue
        names = {
            "zero": one(runtime.zero_stages), "recompute": one(runtime.recomputes),
            "schedule": one(runtime.schedules), "cp_method": one(runtime.cp_methods or ("ring",)),
            "offload": one(runtime.offloads),
            "sequence_parallel": bool(draw.integers(2)),
        }  # fmt: skip
        if not cuts_evenly(job, degrees):
            continue
        plan = plan_of(job, **(degrees | names | fixed))
        if is_legal(plan, job, runtime):
            count -= 1
            yield plan
