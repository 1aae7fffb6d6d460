"""Double ring: keys and values circle inside a fast domain, and from domain to domain beside that.

Each rank passes a part of another domain on over its own port while the parts of this domain go around its
fast links, so that a slow hop has a whole inner turn to finish in (LoongTrain, sec. 4.3). Bytes are a ring's.
"""

from planner.formulas.messages import double_ring_seconds
from planner.techniques.context.family import ContextMethod, any_heads, four_chunks, ring_share
from planner.techniques.context.ring import backward_elements, forward_elements

ENTRY = ContextMethod(
    name="double-ring",
    cite="arXiv:2406.18485",
    overlaps=True,
    legal=any_heads,
    forward_elements=forward_elements,
    backward_elements=backward_elements,
    seconds=double_ring_seconds,
    sent_share=ring_share,
    gathered_elements=four_chunks,
    aliases=("loongtrain-ring", "2d-ring"),
)
