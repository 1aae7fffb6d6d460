"""Dynamic sequence parallelism: a sample is split along the axis that the next block does not attend over.

Attention over space needs whole frames, attention over time all frames of a place: ranks hold one or the
other, and switch by one all-to-all of the activation between blocks. Exchange of heads takes four in each,
of queries, keys, values and results: a quarter of the volume.
"""

import numpy as np

from planner.formulas.collectives import all_to_all_seconds
from planner.numeric import Num
from planner.techniques.context.family import ContextMethod, any_heads, ring_share


def switched_elements(tokens: Num, q_width: Num, kv_width: Num, cp: Num) -> Num:
    """Elements of the activation, as wide as queries: M of a switch in sec. 3. [element]"""
    return tokens * q_width


def gathered_elements(tokens: Num, q_width: Num, kv_width: Num, cp: Num) -> Num:
    """Elements of the receive buffer beside the activation itself. [element]"""
    return tokens * q_width * np.where(cp > 1, 1.0, 0.0)


ENTRY = ContextMethod(
    name="dsp",
    cite="arXiv:2403.10266",
    overlaps=False,
    legal=any_heads,
    forward_elements=switched_elements,
    backward_elements=switched_elements,
    returns_kv_gradients=False,
    seconds=all_to_all_seconds,
    sent_share=ring_share,
    gathered_elements=gathered_elements,
    aliases=("dynamic-sequence-parallelism",),
)
