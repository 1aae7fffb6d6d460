"""TokenRing: keys and values stay, queries go one way around and partial results the other way at once.

Both directions of a link carry one width of the queries in a round, where a ring's one direction carries keys
and values: half as long with as many key/value heads as query heads, longer where more than two queries share
one. Backward is not described: queries and the gradients of results are taken to go one way, and the
gradients of queries the other. Row statistics of partial results (one number for a head) are not counted.
"""

from planner.formulas.messages import shift_seconds
from planner.numeric import Num
from planner.techniques.context.family import ContextMethod, any_heads, ring_share, two_chunks


def forward_elements(tokens: Num, q_width: Num, kv_width: Num, cp: Num) -> Num:
    """Elements of the queries of the whole sequence, the longer of both directions. [element]"""
    return tokens * q_width * cp


def backward_elements(tokens: Num, q_width: Num, kv_width: Num, cp: Num) -> Num:
    """Elements of the queries and of the gradients of results, the longer of both directions. [element]"""
    return 2 * tokens * q_width * cp


def sent_share(cp: Num) -> Num:
    """Share of that which a rank sends in both directions: five widths of three, two forward. [-]

    Forward queries and results, backward queries, gradients of results and of queries.
    """
    return ring_share(cp) * 5.0 / 3.0


def gathered_elements(tokens: Num, q_width: Num, kv_width: Num, cp: Num) -> Num:
    """Elements of two chunks in flight in either direction, of backward. [element]"""
    return two_chunks(tokens, q_width, 3 * q_width, cp)


ENTRY = ContextMethod(
    name="token-ring",
    cite="arXiv:2412.20501",
    overlaps=True,
    legal=any_heads,
    forward_elements=forward_elements,
    backward_elements=backward_elements,
    returns_kv_gradients=False,
    seconds=shift_seconds,
    sent_share=sent_share,
    gathered_elements=gathered_elements,
    exposed=0.0,
    aliases=("tokenring",),
)
