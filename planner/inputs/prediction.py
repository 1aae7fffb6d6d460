"""Layers that predict tokens further on."""

from __future__ import annotations

from planner.inputs.record import Positive, Record


class PredictionLayers(Record):
    """Extra multi-token prediction layers after the last block, each with its own projection and norms.

    Embedding and head are shared with the model (DeepSeek-V3, arXiv:2412.19437, sec. 2.2).
    """

    layers: Positive
    block: str

    def extra_params(self, hidden: int, norm_width: int) -> int:
        """Parameters of one layer beside its block: a projection of two streams, three norms. [element]"""
        return 2 * hidden * hidden + 3 * norm_width
