"""What of a model's blocks is other than usual: a runner that has no such block refuses it by this name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

Variant = Literal[
    "parallel-blocks", "norms-after", "norms-after-attention", "norms-on-sums", "negative-eigenvalues",
    "bare-norms", "bare-head-norms", "head-norms-after-rotary", "embedding-norm", "embedding-norm-first",
    "head-bias", "normed-head-rows", "alibi", "scaled-queries", "sparse-mixer", "distance-biases",
    "value-norms", "scaled-router", "wide-rotary", "softplus-gates", "sine-positions",
]  # fmt: skip

MEANINGS: Final[Mapping[Variant, str]] = {
    "parallel-blocks": "attention and feed-forward side by side on one stream",
    "norms-after": "norms on the results of attention and feed-forward, none before them",
    "norms-after-attention": "norms on results in layers with attention, before their parts in the others",
    "norms-on-sums": "norms on the sums of attention and feed-forward with what they read",
    "negative-eigenvalues": "a delta rule that may turn a state's sign",
    "bare-norms": "norms without weights",
    "bare-head-norms": "norms without weights on queries and keys",
    "head-norms-after-rotary": "norms on queries and keys after they are turned by position",
    "embedding-norm": "a norm after the embedding",
    "embedding-norm-first": "a norm after the embedding in place of the first layer's first",
    "head-bias": "a bias on the output head",
    "normed-head-rows": "an output head whose rows are scaled to one length (NormHead)",
    "alibi": "a penalty on distance in place of positions (ALiBi)",
    "scaled-queries": "queries scaled by their position",
    "value-norms": "norms without weights on values",
    "scaled-router": "a router with weights for its input and for each expert's share",
    "wide-rotary": "rotary frequencies of the whole head, of which a part turns",
    "softplus-gates": "gates on attention that grow without bound (softplus)",
    "sine-positions": "positions of sines added to embeddings, which do not learn",
    "distance-biases": "learned biases of scores by distance (T5)",
    "sparse-mixer": "two experts picked one after the other (SparseMixer)",
}
"""What each means. Weights of norms and the head's bias count as parameters."""


def variant_texts(variants: tuple[Variant, ...]) -> tuple[str, ...]:
    """Return what each variant means, and the name under which the model has it."""
    return tuple(f"{MEANINGS[name]} (variants: {name})" for name in variants)
