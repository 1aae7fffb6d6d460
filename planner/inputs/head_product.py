"""What may stand between the last layer and the output head."""

from __future__ import annotations

from planner.inputs.record import Flag, Record


class HeadProduct(Record):
    """A product as wide as the model, an activation and a norm before the head, as BERT has them.

    References
    ----------
    .. [1] Hugging Face, Transformers v5.23.0, ``models/bert/modeling_bert.py``,
       ``BertPredictionHeadTransform``.
    """

    bias: Flag

    def params(self, hidden: int, norm_width: int) -> int:
        """Parameters; ``norm_width`` is those of the norm. [element]"""
        return (hidden + self.bias) * hidden + norm_width
