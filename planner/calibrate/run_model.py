"""The model of a run: the zoo's where name and columns agree with it, else built from the columns."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from planner.calibrate.run_table import Run
from planner.inputs.model import Attention, Block, DenseFfn, Experts, ModelSpec

Named = Callable[[str], ModelSpec | None]
"""Finds a model of the zoo by the name in a run table."""

ARCHITECTURE: Final = (
    "model", "num_layers", "hidden", "ffn_hidden", "gated_mlp", "heads", "kv_heads", "head_dim", "vocab",
    "tied_embeddings", "seq_len", "experts", "topk", "moe_ffn", "n_moe_layers", "shared_experts",
)  # fmt: skip
GATED: Final = re.compile(r"llama|qwen|mistral|mixtral|deepseek|gemma|intern|phi-?[34]|olmo|yi-|glm|baichuan")
VOCABULARIES: Final = (
    (re.compile(r"llama-?3"), 128256),
    (re.compile(r"llama|mistral|mixtral"), 32000),
    (re.compile(r"qwen"), 151936),
    (re.compile(r"bert"), 30592),
)
GPT_VOCABULARY: Final = 51200
"""GPT-2's 50,257 entries padded as in Megatron's scaling tables (arXiv:2104.04473, table 1). [-]"""
HEAD_DIM: Final = 128
"""Width of a head where only their number is stated. [element]"""


def simple(name: str) -> str:
    """Return a model's name without case, punctuation and remarks in brackets.

    Examples
    --------
    >>> simple("DeepSeekV3 (w/o MTP)"), simple("Qwen3_30B_a3B")
    ('deepseekv3', 'qwen330ba3b')
    """
    return re.sub(r"[^a-z0-9]", "", re.sub(r"\(.*?\)", "", name.lower()))


def architecture_defaults(run: Run, named: Named) -> dict[str, object]:
    """Return values for a run's blank architecture columns: the zoo's, arithmetic, or its family's habits."""
    spec = named(run.model)
    if spec is not None and agrees(spec, run):
        return {column: value for column, value in columns(spec).items() if getattr(run, column) is None}
    name = run.model.lower()
    gated = run.gated_mlp if run.gated_mlp is not None else int(bool(GATED.search(name) or run.experts))
    hidden = run.hidden or (run.heads * (run.head_dim or HEAD_DIM) if run.heads else None)
    chosen: dict[str, object] = {"gated_mlp": gated, "hidden": hidden, "tied_embeddings": int(not gated)}
    if run.heads:
        chosen["kv_heads"] = run.heads
    if hidden and run.heads and hidden % run.heads == 0:
        chosen["head_dim"] = hidden // run.heads
    if hidden:
        chosen["ffn_hidden"] = -(-8 * hidden // 3 // 256) * 256 if gated else 4 * hidden
    chosen["vocab"] = next((size for family, size in VOCABULARIES if family.search(name)), GPT_VOCABULARY)
    if hidden and run.params_b and run.num_layers is None and not run.experts:
        chosen["num_layers"] = layers_by_size(run.params_b, hidden, run.pp or 1)
    if run.experts:
        chosen |= {"n_moe_layers": run.num_layers, "shared_experts": 0, "moe_ffn": run.ffn_hidden}
    return {key: value for key, value in chosen.items() if getattr(run, key) is None and value is not None}


def layers_by_size(params_b: float, hidden: int, pp: int) -> int:
    """Return the layers, a multiple of the stages, of a plain model with ``params_b`` billion parameters.

    Examples
    --------
    >>> layers_by_size(195, 14400, 11)
    77
    """
    return max(1, round(params_b * 1e9 / (12 * hidden**2) / pp)) * pp


def lacking(run: Run) -> tuple[str, ...]:
    """Return the columns without which no model can be built."""
    needed = (
        "num_layers",
        "hidden",
        "heads",
        "head_dim",
        "seq_len",
        *(("topk", "moe_ffn") if run.experts else ()),
    )
    return tuple(name for name in needed if getattr(run, name) is None)


def run_model(run: Run, named: Named) -> ModelSpec:
    """Return the model of a run whose blanks are filled.

    Raises
    ------
    pydantic.ValidationError
        If the columns contradict each other.
    """
    spec = named(run.model)
    if spec is None or not agrees(spec, run):
        return built(*(getattr(run, name) for name in ARCHITECTURE))
    said = f"{run.model} {run.notes}".lower()
    if spec.prediction is not None and ("w/o mtp" in said or "mtp layer: off" in said):
        return spec.model_copy(update={"prediction": None})
    return spec


def columns(spec: ModelSpec) -> dict[str, object]:
    """Return a zoo model as the architecture columns of a run table, those that it has."""
    block = spec.blocks[spec.layers[-1]]
    mixer, experts = block.mixer, block.ffn if isinstance(block.ffn, Experts) else None
    plain = [other.ffn for other in spec.blocks.values() if isinstance(other.ffn, DenseFfn)]
    there: dict[str, object] = {
        "num_layers": spec.num_layers,
        "hidden": spec.hidden,
        "vocab": spec.vocab,
        "tied_embeddings": int(spec.tied_embeddings),
        "heads": mixer.heads,
        "kv_heads": mixer.kv_heads,
        "head_dim": mixer.value_head_dim,
        "gated_mlp": int(block.ffn.gated),
    }
    if plain:
        there["ffn_hidden"] = plain[0].inner
    if experts is not None:
        there |= {"experts": experts.experts, "topk": experts.topk, "moe_ffn": experts.inner}
    return there


def agrees(spec: ModelSpec, run: Run) -> bool:
    """Whether every column that a run states is that of a model in the zoo."""
    pairs = ((value, getattr(run, name)) for name, value in columns(spec).items())
    return all(ours == theirs for ours, theirs in pairs if theirs is not None)


@lru_cache(maxsize=4096)
def built(*values: object) -> ModelSpec:
    """Return the model that the architecture columns describe; equal columns give the same record."""
    of = dict(zip(ARCHITECTURE, values, strict=True))
    gated, layers = bool(of["gated_mlp"]), int(str(of["num_layers"]))
    mixer = Attention.model_validate(
        {"heads": of["heads"], "kv_heads": of["kv_heads"], "head_dim": of["head_dim"], "rotary": gated,
         "qkv_bias": not gated, "output_bias": not gated}
    )  # fmt: skip
    blocks = {"dense": Block(mixer=mixer, ffn=DenseFfn.model_validate(
        {"inner": of["ffn_hidden"], "gated": gated, "bias": not gated}
    ))}  # fmt: skip
    order = ["dense"] * layers
    if of["experts"]:
        width = int(str(of["moe_ffn"]))
        experts = Experts.model_validate(
            {"experts": of["experts"], "topk": of["topk"], "inner": width, "gated": gated,
             "shared_inner": width * int(str(of["shared_experts"]))}
        )  # fmt: skip
        blocks["moe"] = Block(mixer=mixer, ffn=experts)
        sparse = min(layers, int(str(of["n_moe_layers"])))
        order = ["dense"] * (layers - sparse) + ["moe"] * sparse
    return ModelSpec.model_validate(
        {"name": of["model"] or "model", "hidden": of["hidden"], "vocab": of["vocab"],
         "tied_embeddings": bool(of["tied_embeddings"]), "max_positions": of["seq_len"],
         "learned_positions": not gated,
         "norm": "rmsnorm" if gated else "layernorm",
         "blocks": {name: blocks[name] for name in dict.fromkeys(order)}, "layers": tuple(order)}
    )  # fmt: skip
