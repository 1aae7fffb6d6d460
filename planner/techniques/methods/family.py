"""What of a model is trained, and how the rest is stored."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from planner.dataclasses import dataclass
from planner.numeric import Num

TUNING_BATCH = 32
"""Packed sequences of a step where adapters are trained: recipes of Megatron-Bridge take 8 to 32, and 128
single samples (067f987d, ``recipes/common.py``, ``recipes/llama``, ``recipes/qwen``)."""


@dataclass(frozen=True)
class Method:
    """One way to train: everything, or small adapters beside frozen weights."""

    name: str
    """As on the command line."""
    cite: str
    """Where it is described."""
    frozen_weight_bytes: float
    """Bytes of each base weight while it is frozen; 0 where the base is trained. [byte]"""
    dequantise_bytes: float
    """Bytes moved to rebuild one 16-bit weight before its product. [byte]"""
    adapter_params: Callable[[Num, Num, Num], Num]
    """Trained parameters beside one linear layer, from its inputs, outputs and rank; zero where the base
    itself is trained."""
    global_batch: int
    """Sequences of an optimizer step where nobody says."""
    forwards: float = 0.0
    """Forward passes that take the place of forward and backward; 0 where gradients are computed. [-]"""
    learns: str = ""
    """What it costs in learning beside exact training of all weights, where that is not the point."""
    scale_bytes: float = 0.0
    """Of these, scales, which are no parameters and rest whole on each rank. [byte]"""
    aliases: tuple[str, ...] = ()
    """Other names."""

    @cached_property
    def quantises(self) -> bool:
        """Whether frozen weights are kept in fewer bits than they are multiplied in."""
        return 0.0 < self.frozen_weight_bytes < 2.0

    @cached_property
    def trains_base(self) -> bool:
        """Whether the base weights have gradients."""
        return self.frozen_weight_bytes == 0.0

    @cached_property
    def adapts(self) -> bool:
        """Whether adapters stand beside linear layers."""
        return self.adapter_params is not no_adapter_params


MOVES = 3.0
"""Times that weights are moved without gradients: to one side, to the other, and back with the step. [-]"""


def no_adapter_params(inputs: Num, outputs: Num, rank: Num) -> Num:
    """Return no parameters: the base itself is trained."""
    return 0.0 * (inputs + outputs + rank)


def lora_params(inputs: Num, outputs: Num, rank: Num) -> Num:
    """Parameters of the two low-rank factors beside one linear layer. [element]

    Parameters
    ----------
    inputs, outputs, rank : Num
        Width of the layer's input and output, and of the bottleneck. [element]

    References
    ----------
    .. [1] E. Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models," arXiv:2106.09685, sec. 4.1.

    Examples
    --------
    GPT-3, query and value of 96 layers at rank 4, as the paper's 18.9M:

    >>> 96 * 2 * lora_params(12288, 12288, 4)
    18874368
    """
    return rank * (inputs + outputs)
