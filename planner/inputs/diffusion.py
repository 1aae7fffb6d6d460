"""What a diffusion transformer has in place of a vocabulary: what enters and what it makes."""

from __future__ import annotations

from typing import Literal

from planner.inputs.block_parts import Part
from planner.inputs.record import Count, Positive, Record


class Diffusion(Record):
    """The ends of a diffusion transformer, as parts, and the text and frames of a sample.

    Text is ``joint`` where it is part of the sequence that attention sees, and then of its length; ``cross``
    where latents attend to it. Text encoders and the autoencoder are no part of the model: what they make is
    taken to be there.
    """

    text: Literal["joint", "cross", "none"] = "none"
    text_tokens: Count = 0
    frames: Positive = 1
    first: tuple[Part, ...]
    last: tuple[Part, ...]

    @property
    def first_params(self) -> int:
        """Parameters before the first block. [element]"""
        return sum(part.params for part in self.first)

    @property
    def last_params(self) -> int:
        """Parameters after the last block. [element]"""
        return sum(part.params for part in self.last)
