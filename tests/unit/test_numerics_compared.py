"""Each number of a model is compared with what a runner derives, refused by name, or told on the run card.

What runners derive is asked of their own code in `tests/validate`; here no field may be missing there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from planner.inputs.model import ModelSpec
from planner.inputs.numerics import Numerics
from planner.rules import violations
from planner.runtimes import runtimes
from planner.runtimes.family import Job
from planner.runtimes.torchtitan.numerics import unsaid as titan_unsaid
from tests.deep import deep
from tests.validate.megatron import cases
from tests.validate.megatron.numerics import wanted_numerics
from tests.validate.numerics import LLAMA, YARN, hub_says, nanotron_says, titan_says

COMPARED: dict[str, Callable[[ModelSpec], object]] = {
    "megatron-lm": wanted_numerics,
    "megatron-bridge": wanted_numerics,
    "torchtitan": lambda model: [titan_says(model, name) for name in dict.fromkeys(model.layers)],
    "deepspeed": hub_says,
    "fsdp": hub_says,
    "nanotron": nanotron_says,
}
"""What the judge of a runtime compares, from a model."""

MODELS = (
    "llama2-7b", "qwen3-8b", "gpt2", "qwen3-30b-a3b", "mixtral-8x7b", "deepseek-v3", "deepseek-v2",
    "gpt-oss-20b",
)  # fmt: skip

PLAIN = {
    "rope_theta": 777000.0, "local_rope_theta": 7000.0, "rope_fraction": 0.5, "norm_epsilon": 7e-6,
    "init_std": 0.007, "activation": "relu2", "attention_scale": 0.09, "attention_softcap": 50.0,
    "qkv_clip": 8.0, "logit_softcap": 30.0, "embedding_scale": 12.0, "residual_scale": 0.22,
    "logit_scale": 0.125,
}  # fmt: skip
SOFTMAX = {"score": "softmax", "normalize": True}
SIGMOID = {"score": "sigmoid", "normalize": True, "expert_bias": True}
PARTS = {
    "rope_scaling": (
        (
            LLAMA,
            {"factor": 32.0, "original_positions": 4096, "low_freq_factor": 2.0, "high_freq_factor": 8.0},
        ),
        (
            YARN,
            {
                "factor": 20.0, "original_positions": 2048, "beta_fast": 16.0, "beta_slow": 2.0,
                "mscale": 0.7, "mscale_all_dim": 0.7, "attention_factor": 1.3, "truncate": False,
            },
        ),
    ),
    "router": (
        (SOFTMAX, {"score": "sigmoid", "groups": 4, "scale": 2.5, "normalize": False, "expert_bias": True,
                   "aux_loss": 0.05}),
        (SIGMOID, {"score": "softmax", "groups": 4, "scale": 2.5, "normalize": False, "expert_bias": False,
                   "aux_loss": 0.05}),
        (SOFTMAX | {"groups": 4, "top_groups": 1}, {"top_groups": 2}),
        (SOFTMAX | {"aux_loss": 0.05}, {"per_sequence": True}),
        (SIGMOID | {"aux_loss": 0.05}, {"per_sequence": True}),
    ),
}  # fmt: skip
"""Records, and what is changed of each, one field at a time."""

Change = tuple[str, dict[str, Any], dict[str, Any]]


def changes() -> Iterator[Change]:
    """Yield each change: its name, the fields before and after it."""
    for name, value in PLAIN.items():
        yield name, {name: None}, {name: value}
    yield "rope_scaling", {"rope_scaling": None}, {"rope_scaling": {"kind": "linear", "factor": 4.0}}
    for name, records in PARTS.items():
        for record, fields in records:
            for part, value in fields.items():
                yield f"{name}.{part}", {name: record}, {name: {**record, part: value}}


def with_numbers(job: Job, **fields: Any) -> Job:
    own = job.model.numerics.model_dump()
    return replace(
        job, model=job.model.model_copy(update={"numerics": Numerics.model_validate(own | fields)})
    )


def refused(runtime: str, job: Job) -> str:
    """What a runtime's rules say against a job, and what its files cannot say of the model."""
    entry = runtimes()[runtime]
    faults = violations(entry.rules(layout(runtime), job))
    return " ".join([*map(str, faults), *entry.unwritten(job.model)])


def layout(runtime: str) -> Any:
    return cases.plan(8, 8, zero=3 if runtime in ("torchtitan", "fsdp") else 1)


def untold(runtime: str, before: Job, after: Job) -> str:
    """Say how a change is lost; empty where it is refused by its name, compared or told on the card."""
    if refused(runtime, before) or "numerics" in (faults := refused(runtime, after)):
        return ""
    if faults:
        return f"refused without its name: {faults}"
    entry = runtimes()[runtime]
    assert entry.command is not None
    one, other = (entry.command(layout(runtime), job, entry.versions[0]) for job in (before, after))
    if one.notes != other.notes:
        return ""
    if (one.program, one.files) == (other.program, other.files):
        return "the files are the same"
    same = COMPARED[runtime](before.model) == COMPARED[runtime](after.model)
    return "written, and compared with nothing" if same else ""


def test_a_judge_is_known_of_every_runtime() -> None:
    assert set(COMPARED) == set(runtimes())


@pytest.mark.parametrize("runtime", COMPARED)
def test_no_number_of_a_model_is_lost(runtime: str) -> None:
    lost = []
    first = list(COMPARED).index(runtime) % 2
    for name in deep(tuple(MODELS)[first::2], tuple(MODELS)):
        job = cases.job(name, 8, seq_len=1024, global_batch=8)
        if runtime not in ("megatron-lm", "megatron-bridge"):
            job = replace(job, model=job.model.model_copy(update={"prediction": None}))
        for field, before, after in changes():
            if field.startswith("router") and not job.model.expert_kinds:
                continue
            if field.startswith("rope") and job.model.learned_positions:
                continue
            why = untold(runtime, with_numbers(job, **before), with_numbers(job, **after))
            lost += [f"{name} {field}: {why}"] if why else []
    assert not lost


def test_the_law_sees_a_number_that_is_written_and_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(COMPARED, "fsdp", lambda _: None)
    job = cases.job("llama2-7b", 8, seq_len=1024, global_batch=8)
    changed = with_numbers(job, norm_epsilon=7e-6)
    assert untold("fsdp", job, changed) == "written, and compared with nothing"


def test_yarn_without_factors_of_attention_is_refused_by_torchtitan() -> None:
    """Its softmax would be scaled by ``0.1 ln 40 + 1`` squared; transformers scales the rotation alone."""
    job = cases.job("deepseek-v2", 8, seq_len=1024, global_batch=8)
    silent = with_numbers(job, rope_scaling={**YARN, "mscale": 0.0, "mscale_all_dim": 0.0})
    assert titan_unsaid(silent.model, "deepseek_v3") == ("numerics.rope_scaling yarn",)
