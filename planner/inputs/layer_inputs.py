"""An input of its own for each layer, made of a second table of the vocabulary."""

from __future__ import annotations

from planner.inputs.record import Positive, Record


class LayerInputs(Record):
    """Rows of ``width`` for each layer from a table of ``vocab`` words, and a product of the embedding.

    What a layer does with them stands in its block's ``extras`` (Gemma 3n and 4 E2B: per-layer embeddings).
    """

    width: Positive
    vocab: Positive

    def params(self, hidden: int, layers: int) -> int:
        """Parameters of table, product and norm. [element]"""
        return (self.vocab + hidden) * layers * self.width + self.width
