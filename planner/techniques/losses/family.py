"""How a cross entropy over the vocabulary runs: what it moves, and what is live beside it."""

from __future__ import annotations

from planner.dataclasses import dataclass


@dataclass(frozen=True)
class Loss:
    """One way to run head and loss.

    ``logit_bytes`` and ``traffic`` are what a runtime starts from that has it: as traits (``logit_bytes``,
    ``loss_traffic``) they may be set or fitted apart. In how many parts it runs is the trait ``loss_chunks``.
    """

    name: str
    """As in ``--set loss=NAME``."""
    cite: str
    """Where it was read."""
    logit_bytes: float
    """Live bytes of one logit, gradient included. [byte]"""
    traffic: float
    """Bytes moved for one logit by loss and softmax, forward and backward. [byte]"""
    split_bytes: float = 0.0
    """Further live bytes of a logit where the loss runs on logits divided by tp. [byte]"""
    gathered_bytes: float = 0.0
    """Further bytes of a logit that an allocator keeps where logits divided by tp are gathered. [byte]"""
    by_width: bool = False
    """Whether it comes in as many parts as the vocabulary is wider than the hidden state, and more where
    ``loss_chunks`` says so, each of a power of two of tokens."""
    reruns: bool = False
    """Whether head and loss run forward again in backward where a micro-batch comes in parts."""
    gradient_bytes: float = 4.0
    """Bytes of an element of the hidden state's gradient where the parts gather it. [byte]"""
    beside_backward: bool = False
    """Whether its buffers are still held while the first layer's backward runs."""
    aliases: tuple[str, ...] = ()
    """Other names."""
