"""The loss and its logits."""

from __future__ import annotations

from planner.dataclasses import dataclass
from planner.runtimes.traits.trait import trait


@dataclass(frozen=True)
class LossTraits:
    """The loss and its logits."""

    vocab_parallel: bool = trait(
        True,
        "Whether logits stay divided by tp through the loss.",
        name="vocab_parallel_loss",
    )
    padded_vocabulary: bool = trait(
        True,
        "Whether a vocabulary is padded so that the head's products are aligned; unpadded, an odd one is "
        "slow.",
    )
    logit_bytes: float = trait(
        12.0,
        "Live bytes of one logit at the loss, gradient included.",
        unit="byte",
        above_zero=True,
    )
    split_logit_bytes: float = trait(
        0.0,
        "Further live bytes of a logit where the loss runs on logits divided by tp.",
        unit="byte",
    )
    gathered_logit_bytes: float = trait(
        0.0,
        "Further bytes of a logit that an allocator of fixed segments keeps where logits divided by tp are "
        "gathered for the loss.",
        unit="byte",
    )
    chunks: float = trait(
        1.0,
        "Parts of a micro-batch that pass through head and loss, forward and backward, one after another.",
        unit="-",
        name="loss_chunks",
        least=1.0,
    )
    chunks_again: bool = trait(
        False,
        "Whether head and loss run forward again in backward where a micro-batch comes in parts.",
        name="loss_chunks_again",
    )
    chunk_gradient_bytes: float = trait(
        4.0,
        "Bytes of an element of the hidden state's gradient where the loss's parts gather it.",
        unit="byte",
    )
    traffic: float = trait(
        36.0,
        "Bytes moved for one logit by loss and softmax, forward and backward.",
        unit="byte",
        name="loss_traffic",
        above_zero=True,
    )
    beside_backward: bool = trait(
        False,
        "Whether the loss's buffers are still held while the first layer's backward runs.",
        name="loss_beside_backward",
    )
