"""Ring attention: keys and values travel from rank to rank while each computes on what it has.

Forward passes K and V around once; backward passes them again, and their gradients with them.
"""

from planner.formulas.messages import shift_seconds
from planner.numeric import Num
from planner.techniques.context.family import ContextMethod, any_heads, four_chunks, ring_share


def forward_elements(tokens: Num, q_width: Num, kv_width: Num, cp: Num) -> Num:
    """Elements of the keys and values of the whole sequence. [element]"""
    return tokens * kv_width * cp


def backward_elements(tokens: Num, q_width: Num, kv_width: Num, cp: Num) -> Num:
    """Elements of keys, values and both gradients of the whole sequence. [element]"""
    return 2 * tokens * kv_width * cp


ENTRY = ContextMethod(
    name="ring",
    cite="arXiv:2310.01889",
    overlaps=True,
    legal=any_heads,
    forward_elements=forward_elements,
    backward_elements=backward_elements,
    seconds=shift_seconds,
    sent_share=ring_share,
    gathered_elements=four_chunks,
    aliases=("p2p", "ring-attention"),
)
