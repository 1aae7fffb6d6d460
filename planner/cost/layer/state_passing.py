"""States of linear layers that pass from rank to rank of a shared sequence: messages, and what is held."""

from __future__ import annotations

from planner.cost.layer.exchange import ACTIVATION_BYTES, Exchange
from planner.cost.layer.operators import Pricer
from planner.formulas.messages import point_to_point_seconds
from planner.inputs.recurrent import RecurrentMixer
from planner.numeric import Num, ceil, where
from planner.techniques.states import StateMethod

STATE_BYTES = 4.0
"""Bytes of an element of a state: scans keep it in fp32, and send it so. [byte]

References
----------
.. [1] OpenNLPLab/LASP, ``lasp/lightning_attention.py``: states are made in fp32.
"""


def state_bytes(pricer: Pricer, mixer: RecurrentMixer) -> Num:
    """Bytes of the states of one rank: d_k x d_v for each of its heads and sequences. [byte]"""
    heads = ceil(mixer.state_heads / pricer.plan.tp)
    return STATE_BYTES * pricer.plan.micro_batch * heads * (mixer.qk_head_dim * mixer.value_head_dim)


def state_exchange(pricer: Pricer, mixer: RecurrentMixer, method: StateMethod) -> Exchange:
    """Price what a scan sends where every rank keeps all heads: states, and the convolution's last tokens.

    Backward sends gradients of states the other way, which are as large. Nothing hides either. Where ranks
    take turns they wait for one product of each other forward, and for two backward.

    References
    ----------
    .. [1] Y. Chou et al., arXiv:2507.01004, 2025: what its layers take beyond those of one rank is twice
       the measured All-Scan (`tests/unit/test_states.py`).
    """
    case, plan = pricer.case, pricer.plan
    nbytes = state_bytes(pricer, mixer)
    read = method.held_states(plan.cp) * nbytes / case.kernels.memory_bandwidth
    reach = plan.micro_batch * (mixer.conv_kernel - 1.0) * mixer.conv_width / plan.tp
    edge = ACTIVATION_BYTES * reach
    seconds = method.seconds(nbytes, plan.cp, plan.tp, case.tiers) + read
    waits = method.turns(plan.cp) * read_seconds(pricer, mixer)
    if mixer.conv_width:
        seconds = seconds + point_to_point_seconds(edge, plan.tp, case.tiers)
    sent = method.sent_states(plan.cp) * nbytes + edge
    forward, backward = seconds + waits, seconds + 2.0 * waits
    forward, backward, sent = (where(plan.cp > 1, one, 0.0) for one in (forward, backward, sent))
    return Exchange(forward, backward, sent, sent)


def read_seconds(pricer: Pricer, mixer: RecurrentMixer) -> Num:
    """Seconds in which queries meet the state: memory has queries read and results written. [s]"""
    heads = ceil(mixer.state_heads / pricer.plan.tp)
    moved = ACTIVATION_BYTES * pricer.tokens * heads * (mixer.qk_head_dim + mixer.value_head_dim)
    return moved / pricer.case.kernels.memory_bandwidth


def held_states(pricer: Pricer, mixer: RecurrentMixer) -> tuple[Num, Num]:
    """Return the bytes of the state that a layer keeps for backward, and of those that wait to be merged."""
    method, cp = pricer.case.context.states, pricer.plan.cp
    if method is None:
        return 0.0, 0.0
    nbytes = where(cp > 1, state_bytes(pricer, mixer), 0.0)
    return nbytes, method.held_states(cp) * nbytes
