"""Layers that predict tokens further on."""

from __future__ import annotations

from planner.inputs.record import Flag, Positive, Record


class PredictionLayers(Record):
    """Extra multi-token prediction layers after the last block, each with its own projection and norms.

    Embedding and head are shared with the model (DeepSeek-V3, arXiv:2412.19437, sec. 2.2). Where they are
    ``repeated`` one layer runs so many times (Megatron-core's ``mtp_use_repeated_layer``).
    """

    layers: Positive
    block: str
    repeated: Flag = False

    @property
    def copies(self) -> int:
        """Layers that have weights of their own. [-]"""
        return 1 if self.repeated else self.layers

    def extra_params(self, hidden: int, norm_width: int) -> int:
        """Parameters of one layer beside its block: a projection of two streams, three norms. [element]"""
        return 2 * hidden * hidden + 3 * norm_width
