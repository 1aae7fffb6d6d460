"""BurstAttention: keys and values travel forward, queries and their gradients backward.

Forward is a ring's. In backward keys and values stay where they are, and queries, the gradients of queries
and of outputs, and two statistics of each row go around: three widths of the queries in place of the ring's
four of keys and values. With as many key/value heads as query heads that is less; with grouped queries it is
more, six times as much at eight query heads for one.

Messages are buffered twice and travel beside the attention of the round before (sec. 3.2).
"""

from planner.formulas.messages import shift_seconds
from planner.numeric import Num, maximum
from planner.techniques.context.family import ContextMethod, any_heads, ring_share, two_chunks


def forward_elements(tokens: Num, q_width: Num, kv_width: Num, cp: Num) -> Num:
    """Elements of the keys and values of the whole sequence: 2 B Z N d in Table 1. [element]"""
    return tokens * kv_width * cp


def backward_elements(tokens: Num, q_width: Num, kv_width: Num, cp: Num) -> Num:
    """Elements of the queries and of both gradients of the whole sequence: 3 B Z N d in Table 1. [element]"""
    return 3 * tokens * q_width * cp


def gathered_elements(tokens: Num, q_width: Num, kv_width: Num, cp: Num) -> Num:
    """Elements of the two chunks in flight, of forward or of backward, whichever are larger. [element]"""
    return two_chunks(tokens, q_width, maximum(kv_width, 3 * q_width), cp)


ENTRY = ContextMethod(
    name="burst",
    cite="arXiv:2403.09347",
    overlaps=True,
    legal=any_heads,
    forward_elements=forward_elements,
    backward_elements=backward_elements,
    backward_statistics=2.0,
    returns_kv_gradients=False,
    seconds=shift_seconds,
    sent_share=ring_share,
    gathered_elements=gathered_elements,
    exposed=0.0,
    aliases=("burst-attention",),
)
