"""The model of a run: the zoo's where name and columns agree with it, else built from the columns."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Final

from planner.calibrate.runs.columns import RunModel
from planner.calibrate.runs.table import Run
from planner.inputs.model import Attention, Block, DenseFfn, Experts, ModelSpec
from planner.inputs.prediction import PredictionLayers
from planner.remembered import remembered

Named = Callable[[str], ModelSpec | None]
"""Finds a model of the zoo by the name in a run table."""

Size = tuple[int | None, int | None, bool]
"""Layers, width, and whether there are experts."""
BySize = Mapping[Size, Sequence[ModelSpec]]
"""Models of the zoo by their size."""

SHAPE: Final = ("num_layers", "hidden", "heads")
"""What a row without a known name must state to be known by its shape, beside its vocabulary or experts."""

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
PLAIN_WIDTH: Final = 4
"""Width of a plain feed-forward over that of its model. [-]"""
LAYER_WEIGHTS: Final = 12
"""Weights of a plain layer over the square of its width: four for attention, eight for a feed-forward. [-]"""
HEAD_DIM: Final = 128
"""Width of a head where only their number is stated. [element]"""
HEAD_DIMS: Final = (128, 64, 96, 80, 256)
"""Usual widths of a head, the likeliest first. [element]"""


_PREDICTED: Final = re.compile(r"\bmtp[-_]num[-_]layers=(\d+)")
"""Words of the notes that tell how many layers predict further tokens."""


def simple(name: str) -> str:
    """Return a model's name without case, punctuation and remarks in brackets.

    Examples
    --------
    >>> simple("DeepSeekV3 (w/o MTP)"), simple("Qwen3_30B_a3B")
    ('deepseekv3', 'qwen330ba3b')
    """
    return re.sub(r"[^a-z0-9]", "", re.sub(r"\(.*?\)", "", name.lower()))


def known_model(run: RunModel, named: Named, zoo: Callable[[], BySize]) -> ModelSpec | None:
    """Return the model of the zoo that a run trains: by its name, or by its shape where the name is unknown.

    No column of the run disagrees with it.
    """
    spec = named(run.model)
    if spec is not None:
        return spec if agrees(spec, run) else None
    told = ("experts", "topk", "moe_ffn") if run.experts else ("vocab",)
    if any(getattr(run, name) is None for name in (*SHAPE, *told)):
        return None
    size = (run.num_layers, run.hidden, bool(run.experts))
    return next((spec for spec in zoo().get(size, ()) if agrees(spec, run)), None)


def size_of(spec: ModelSpec) -> Size:
    """Return the layers and width of a model, and whether it has experts."""
    return spec.num_layers, spec.hidden, bool(spec.expert_kinds)


def architecture_defaults(run: Run, spec: ModelSpec | None) -> dict[str, object]:
    """Return values for a run's blank architecture columns: the zoo's, arithmetic, or its family's habits."""
    if spec is not None:
        return {column: value for column, value in columns(spec).items() if getattr(run, column) is None}
    name = run.model.lower()
    hidden = run.hidden or hidden_width(run)
    gated = is_gated(run, hidden) if run.gated_mlp is None else run.gated_mlp
    heads, head_dim = run.heads or whole_heads(run, hidden), run.head_dim
    if head_dim is None and hidden and heads and hidden % heads == 0:
        head_dim = hidden // heads
    chosen: dict[str, object] = {
        "gated_mlp": gated,
        "hidden": hidden,
        "tied_embeddings": int(not gated),
        "heads": heads,
        "kv_heads": heads,
        "head_dim": head_dim,
        "vocab": next((size for family, size in VOCABULARIES if family.search(name)), GPT_VOCABULARY),
    }
    if hidden:
        chosen["ffn_hidden"] = -(-8 * hidden // 3 // 256) * 256 if gated else 4 * hidden
    if run.experts:
        chosen |= {"n_moe_layers": run.num_layers, "shared_experts": 0, "moe_ffn": run.ffn_hidden}
    full = run.with_values({key: value for key, value in chosen.items() if getattr(run, key) is None})
    if hidden and run.params_b and run.num_layers is None and not run.experts:
        chosen["num_layers"] = layers_by_size(run.params_b, full, run.pp or 1)
    return {key: value for key, value in chosen.items() if getattr(run, key) is None and value is not None}


def is_gated(run: RunModel, hidden: int | None) -> int:
    """Return whether a feed-forward is gated: by name, or as its width tells.

    Plain ones are four times as wide as the model, as in arXiv:1706.03762, and gated ones of another width,
    so that their three products have as many weights as two (arXiv:2002.05202, sec. 3).
    """
    wide = bool(run.ffn_hidden and hidden and run.ffn_hidden != PLAIN_WIDTH * hidden)
    return int(bool(GATED.search(run.model.lower()) or run.experts or wide))


def hidden_width(run: RunModel) -> int | None:
    """Return the width of a model by its heads, or of a plain one by its size, in whole heads."""
    if run.heads and run.head_dim:
        return run.heads * run.head_dim
    step = run.heads or run.head_dim or HEAD_DIM
    if run.params_b and run.num_layers and not run.experts:
        wide = math.sqrt(run.params_b * 1e9 / (LAYER_WEIGHTS * run.num_layers))
        return max(1, round(wide / step)) * step
    return run.heads * HEAD_DIM if run.heads else None


def whole_heads(run: RunModel, hidden: int | None) -> int | None:
    """Return the heads that make up a width, of the stated size or of a usual one that divides it."""
    sizes = (run.head_dim,) if run.head_dim else HEAD_DIMS
    counts = (hidden // size for size in sizes if hidden % size == 0) if hidden else ()
    return next((count for count in counts if count % (run.kv_heads or 1) == 0), None)


def layers_by_size(params_b: float, run: RunModel, pp: int) -> int:
    """Return the layers, a multiple of the stages, of a dense model with ``params_b`` billion parameters.

    ``run`` has the other columns of its architecture; embedding and head are taken off first.
    """
    hidden = run.hidden or 1
    attention = (run.heads or 0) * (run.head_dim or 0) * 2 + (run.kv_heads or 0) * (run.head_dim or 0) * 2
    layer = hidden * (attention + (3 if run.gated_mlp else 2) * (run.ffn_hidden or 4 * hidden))
    ends = (run.vocab or 0) * hidden * (1 if run.tied_embeddings else 2)
    return max(1, round(max(layer, params_b * 1e9 - ends) / (layer or LAYER_WEIGHTS * hidden**2) / pp)) * pp


def lacking(run: RunModel) -> tuple[str, ...]:
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


def run_model(run: Run, spec: ModelSpec | None) -> ModelSpec:
    """Return the model of a run whose blanks are filled, ``spec`` being the zoo's.

    Raises
    ------
    pydantic.ValidationError
        If the columns contradict each other.
    """
    said = f"{run.model} {run.notes}".lower()
    if spec is None:
        model, extra = built(*(getattr(run, name) for name in ARCHITECTURE)), _PREDICTED.search(said)
        return predicting(model, int(extra[1])) if extra and int(extra[1]) else model
    if spec.prediction is not None and ("w/o mtp" in said or "mtp layer: off" in said):
        return spec.model_copy(update={"prediction": None})
    return spec


@remembered(most=256)
def predicting(model: ModelSpec, layers: int) -> ModelSpec:
    """Return a model with extra prediction layers, blocks like its last; the same for the same model."""
    return model.model_copy(update={"prediction": PredictionLayers(layers=layers, block=model.layers[-1])})


def columns(spec: ModelSpec) -> dict[str, object]:
    """Return a zoo model as the architecture columns of a run table, those that it has."""
    block = spec.blocks[spec.layers[-1]]
    mixer, experts = block.attention, block.ffn if isinstance(block.ffn, Experts) else None
    plain = [ffn for ffn in spec.ffns if isinstance(ffn, DenseFfn)]
    there: dict[str, object] = {
        "num_layers": spec.num_layers,
        "hidden": spec.hidden,
        "vocab": spec.vocab,
        "tied_embeddings": int(spec.tied_embeddings),
    }
    if mixer is not None:
        there |= {"heads": mixer.heads, "kv_heads": mixer.kv_heads, "head_dim": mixer.value_head_dim}
    if block.ffn is not None:
        there["gated_mlp"] = int(block.ffn.gated)
    if plain:
        there["ffn_hidden"] = plain[0].inner
    if experts is not None:
        there |= {"experts": experts.experts, "topk": experts.topk, "moe_ffn": experts.inner}
    return there


def agrees(spec: ModelSpec, run: RunModel) -> bool:
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
         "norm": "rmsnorm" if gated else "layernorm", "norm_bias": not gated,
         "blocks": {name: blocks[name] for name in dict.fromkeys(order)}, "layers": tuple(order)}
    )  # fmt: skip
