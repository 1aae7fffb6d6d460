"""The attention kernel, and what surrounds it."""

from __future__ import annotations

from planner.dataclasses import dataclass
from planner.runtimes.traits.trait import trait
from planner.techniques.attention import ATTENTION_KERNELS
from planner.techniques.attention_codes import ATTENTION_CODES


@dataclass(frozen=True)
class AttentionTraits:
    """The attention kernel, and what surrounds it."""

    kernel: str = trait(
        "flash-3",
        "Attention kernel; ``flash-3`` stands for the best that the accelerator has.",
        name="attention",
        words=ATTENTION_KERNELS,
    )
    share: float = trait(
        1.0,
        "Rate of that kernel over its published one.",
        unit="-",
        name="attention_share",
        above_zero=True,
        up_to=1.0,
    )
    fp8: bool = trait(
        False,
        "Whether attention multiplies in fp8 (Transformer Engine's ``fp8_dpa``). It changes numerics.",
        name="fp8_attention",
    )
    score_bytes: float = trait(
        5.0,
        "Bytes kept of a score where scores go through memory: softmax, dropout's mask, what it leaves (V. "
        "Korthikanti et al., arXiv:2205.05198, sec. 4.1); 6 where the softmax is in fp32 and nothing is "
        "dropped.",
        unit="byte",
    )
    code: str = trait(
        "plain",
        "Whose code calls the kernel: keys and values ``repeated`` to all query heads and the output copied, "
        "the result ``rescaled`` by sinks, or neither.",
        name="attention_code",
        words=ATTENTION_CODES,
    )
