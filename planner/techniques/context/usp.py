"""A mesh of both: ranks of a fast domain share heads by an all-to-all, a ring joins such groups.

Between groups every rank passes on the keys and values of its own heads for its group's part of the sequence,
over its own port. Megatron-core has it as ``a2a+p2p`` with ``hierarchical_context_parallel_sizes``.

A search tries it for long sequences alone: shorter ones need no more ranks than share heads or fast links.
"""

from planner.formulas.mesh import mesh_head_ranks
from planner.formulas.messages import shift_seconds
from planner.numeric import Num
from planner.techniques.context.all_to_all import ENTRY as ALL_TO_ALL
from planner.techniques.context.family import ContextMethod, Mask, four_chunks, ring_share, splits_evenly
from planner.techniques.context.ring import backward_elements, forward_elements


def legal(cp: Num, heads: Num, kv_heads: Num, head_ranks: Num) -> Mask:
    """Whether groups share heads evenly and there are several of them, of several ranks each."""
    mesh: Mask = (head_ranks > 1) & (cp > head_ranks) & (cp % head_ranks == 0)
    return mesh & splits_evenly(heads, kv_heads, head_ranks)


ENTRY = ContextMethod(
    name="usp",
    cite="arXiv:2405.07719",
    overlaps=True,
    legal=legal,
    head_ranks=mesh_head_ranks,
    heads_by=ALL_TO_ALL,
    forward_elements=forward_elements,
    backward_elements=backward_elements,
    seconds=shift_seconds,
    sent_share=ring_share,
    gathered_elements=four_chunks,
    searched_from=32768,
    aliases=("a2a+p2p", "ulysses-ring"),
)
