"""Fine-tuning runs: short documents packed into one sequence, each attending to itself alone."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from planner.inputs.model import Attention, ModelSpec

DOCUMENT: Final = 512
"""Tokens of a packed document: an eighth of the 4,096 of the published runs. [element]

References
----------
.. [1] NVIDIA, NeMo performance pages: fine-tuning on SQuAD, packed to sequences of 4,096 tokens.
"""


class _Same:
    """A model as a key: equal to itself alone."""

    def __init__(self, model: ModelSpec) -> None:
        self.model = model

    def __hash__(self) -> int:
        return id(self.model)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.model is self.model


def packed(model: ModelSpec) -> ModelSpec:
    """Return a model whose attention sees `DOCUMENT` tokens at a time; the same for the same model."""
    return _packed(_Same(model))


@lru_cache(maxsize=256)
def _packed(key: _Same) -> ModelSpec:
    blocks = {
        name: block.model_copy(update={"mixer": _cut(block.mixer)})
        if isinstance(block.mixer, Attention)
        else block
        for name, block in key.model.blocks.items()
    }
    return key.model.model_copy(update={"blocks": blocks})


def _cut(mixer: Attention) -> Attention:
    if mixer.window is not None and mixer.window <= DOCUMENT:
        return mixer
    return mixer.model_copy(update={"window": DOCUMENT, "chunked": True})
