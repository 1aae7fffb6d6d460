"""What of a model is other than usual is said by the files of each runtime, or the runtime refuses it.

Each part of a plain model is changed alone: were it passed over, the files of two models would be the same.
"""

from __future__ import annotations

from typing import Any, Final, get_args

import pytest

from planner.cost.case import case_of
from planner.cost.legal import all_rules
from planner.errors import InputError
from planner.inputs.blocks import Attention, Block, DenseFfn, Experts
from planner.inputs.build import build
from planner.inputs.model import ModelSpec
from planner.inputs.variants import Variant
from planner.rules import violations
from planner.runtimes import runtimes
from planner.runtimes.family import Runtime
from tests.cases import every
from tests.unit import runner_jobs as jobs

WRITING: Final = [name for name, runtime in runtimes().items() if runtime.command is not None]

PLAIN: Final[dict[str, Any]] = {
    "name": "plain", "hidden": 1024, "vocab": 32000, "tied_embeddings": False, "max_positions": 4096,
    "blocks": {
        "d": {
            "mixer": {"kind": "attention", "heads": 16, "kv_heads": 8, "head_dim": 64},
            "ffn": {"kind": "dense", "inner": 4096},
        }
    },
    "layers": ["d"] * 4,
}  # fmt: skip

MIXER: Final[dict[str, Any]] = {
    "heads": 8, "kv_heads": 16, "head_dim": 128, "v_head_dim": 32, "window": 512, "chunked": True,
    "causal": False, "qkv_bias": True, "key_bias": False, "output_bias": True, "qk_norm": "head",
    "sinks": True, "rotary": False,
    "output_gate": True, "head_gate": True, "projected": "queries-keys",
    "indexer": {"heads": 8, "head_dim": 64, "block": 64, "blocks": 8}, "distances": 32,
}  # fmt: skip
"""Another value of each field of attention."""

FFN: Final[dict[str, Any]] = {"inner": 2048, "gated": False, "bias": True, "activation_weights": 2}
EXPERTS: Final[dict[str, Any]] = {
    "experts": 16, "topk": 4, "inner": 512, "gated": False, "bias": True, "shared_inner": 512,
    "shared_gate": True, "router_bias": True, "zero_experts": 8, "shortcut": True, "latent": 256,
}  # fmt: skip
BLOCK: Final[dict[str, Any]] = {
    "norms": 4, "beside": {"kind": "mamba2", "heads": 16, "head_dim": 64, "groups": 1, "state": 64},
}  # fmt: skip
MODEL: Final[dict[str, Any]] = {
    "hidden": 2048, "vocab": 16000, "tied_embeddings": True, "learned_positions": True, "token_types": 2,
    "norm": "layernorm", "norm_bias": True, "final_norm": False, "head_product": {"bias": True},
    "prediction": {"layers": 1, "block": "d"}, "layer_inputs": {"width": 64, "vocab": 32000},
}  # fmt: skip

NOT_ALONE: Final = {
    "chunked": {"window": 512, "chunked": True},
    "key_bias": {"qkv_bias": True, "key_bias": False},
    "shared_gate": {"shared_inner": 512, "shared_gate": True},
}
"""Fields that mean nothing by themselves, with what goes with them."""


def plain(mixer: Any = None, ffn: Any = None, block: Any = None, **fields: Any) -> ModelSpec:
    """Return the plain model with other parts."""
    own = PLAIN["blocks"]["d"]
    fed = own["ffn"] if ffn is None or ffn.get("kind") != "moe" else {}
    one = {"mixer": own["mixer"] | (mixer or {}), "ffn": fed | (ffn or {})} | (block or {})
    return build(ModelSpec, PLAIN | {"blocks": {"d": one}} | fields, "plain.yaml")


def moe(**fields: Any) -> ModelSpec:
    """Return it with experts."""
    return plain(ffn={"kind": "moe", "experts": 8, "topk": 2, "inner": 1024} | fields)


CASES: Final[dict[str, tuple[Any, Any]]] = {
    **{
        f"mixer {name}": (plain, {"mixer": NOT_ALONE.get(name, {name: value})})
        for name, value in MIXER.items()
    },
    **{f"ffn {name}": (plain, {"ffn": {name: value}}) for name, value in FFN.items()},
    **{f"experts {name}": (moe, NOT_ALONE.get(name, {name: value})) for name, value in EXPERTS.items()},
    **{f"block {name}": (plain, {"block": {name: value}}) for name, value in BLOCK.items()},
    **{name: (plain, {name: value}) for name, value in MODEL.items()},
    **{f"variant {name}": (plain, {"variants": [name]}) for name in get_args(Variant)},
}


def written(runtime: Runtime, model: ModelSpec) -> tuple[str, ...] | None:
    """Return all that starts and configures a job of a model, nothing where it is refused."""
    own, task = runtime.for_model(model), jobs.job(model, 8, seq_len=2048, global_batch=64)
    plan = jobs.plan(task, zero=runtime.default_zero)
    if violations(all_rules(plan, case_of(plan, task, own))) or runtime.unwritten(model):
        return None
    assert own.command is not None
    command = own.command(plan, task, runtime.versions[0])
    return (*command.real, *sorted((command.files or {}).values()))


@every("case", CASES)
@every("name", WRITING)
def test_another_part_is_said_or_refused(name: str, case: str) -> None:
    runtime, (make, changes) = runtimes()[name], CASES[case]
    try:
        other = make(**changes)
    except InputError as fault:
        pytest.fail(f"{case} makes no model: {fault}")
    usual = written(runtime, make())
    assert usual is not None
    assert written(runtime, other) != usual


@every(
    ("record", "known"),
    [(Attention, MIXER), (DenseFfn, FFN), (Experts, EXPERTS)],
    ids=["attention", "dense", "experts"],
)
def test_each_field_of_a_part_is_changed(record: Any, known: dict[str, Any]) -> None:
    assert set(record.model_fields) - {"kind"} == set(known)


def test_each_field_of_a_model_is_changed() -> None:
    """But for its name and texts, its layers, and what is tested by itself: numbers, encoders, diffusion."""
    apart = {
        "name",
        "aliases",
        "source",
        "note",
        "published",
        "blocks",
        "layers",
        "variants",
        "max_positions",
    }
    apart |= {"spare_positions", "numerics", "encoder", "diffusion"}
    assert set(ModelSpec.model_fields) - apart == set(MODEL)
    assert set(Block.model_fields) - {"mixer", "ffn", "parts", "extras", "cross"} == set(BLOCK)
