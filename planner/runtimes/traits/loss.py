"""The loss and its logits."""

from __future__ import annotations

from planner.dataclasses import dataclass
from planner.runtimes.traits.trait import trait
from planner.techniques.losses import LOSSES


@dataclass(frozen=True)
class LossTraits:
    """The loss and its logits; numbers are those of the kind unless set apart."""

    kind: str = trait(
        "vocab-parallel-fused",
        "How head and cross entropy run. Its live bytes and traffic come with it.",
        name="loss",
        words=LOSSES,
    )
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
        10.0,
        "Live bytes of one logit at the loss, gradient included.",
        unit="byte",
        above_zero=True,
    )
    chunks: float = trait(
        1.0,
        "Parts of a micro-batch that pass through head and loss, forward and backward, one after another.",
        unit="-",
        name="loss_chunks",
        least=1.0,
    )
    traffic: float = trait(
        36.0,
        "Bytes moved for one logit by loss and softmax, forward and backward.",
        unit="byte",
        name="loss_traffic",
        above_zero=True,
    )
