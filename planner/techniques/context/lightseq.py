"""Balanced causal attention: ranks that see few keys help those that see many.

In step t a rank either fetches the keys and values t places before it, or fetches another's queries and
returns its results; half of the ring's steps do, the last of them with half of the ranks where their number
is even.

Messages of a step travel beside the attention of the one before, on a stream of their own: only what takes
longer than that attention shows. A Triton kernel carries the running maxima and sums from step to step, so
nothing is stitched afterwards. Checkpoints stand behind attention, whose output is kept and which never runs
again (sec. 3.3); the layer is called in halves around it, and so is its sharded unit (RulinShao/LightSeq,
``lightseq/lightseq_async_attn.py`` and ``lightseq/lightseq_ckpt_monkey_patch.py``).
"""

import numpy as np

from planner.formulas.messages import shift_seconds
from planner.numeric import Num
from planner.techniques.context.family import ContextMethod, any_heads, four_chunks, ring_share


def forward_elements(tokens: Num, q_width: Num, kv_width: Num, cp: Num) -> Num:
    """Elements of the messages of one rank, a quarter of them queries and results. [element]"""
    return tokens * (0.75 * kv_width + 0.5 * q_width) * cp / 2


def backward_elements(tokens: Num, q_width: Num, kv_width: Num, cp: Num) -> Num:
    """Elements of the same messages and of their gradients. [element]"""
    return 2 * forward_elements(tokens, q_width, kv_width, cp)


def idle_factor(cp: Num) -> Num:
    """Time of attention over that of equal work: an even number of ranks is half idle in the end. [-]"""
    return 1.0 + np.where(np.mod(cp, 2.0) == 0, 1.0 / cp, 0.0)


def waits(cp: Num) -> Num:
    """Steps of a pass, before each of which the host waits for the device. [-]

    References
    ----------
    .. [1] RulinShao/LightSeq, ``lightseq/lightseq_async_attn.py``, ``_lightseq_forward``.
    """
    return np.where(cp > 1, np.floor(cp / 2) + 1, 0.0)


ENTRY = ContextMethod(
    name="lightseq",
    cite="arXiv:2310.03294",
    overlaps=True,
    legal=any_heads,
    forward_elements=forward_elements,
    backward_elements=backward_elements,
    seconds=shift_seconds,
    sent_share=ring_share,
    gathered_elements=four_chunks,
    idle_factor=idle_factor,
    waits=waits,
    exposed=0.0,
    kernel="lightseq",
    keeps_attention=True,
    sharded_calls=2.0,
    aliases=("distflashattn",),
)
