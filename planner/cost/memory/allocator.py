"""What a caching allocator costs where a device is nearly full."""

from __future__ import annotations

import numpy as np

from planner import numeric
from planner.cost.case import Case
from planner.cost.memory.fit import overflow_probability
from planner.cost.memory.reserve import needed_share, shown_share
from planner.cost.memory.stage_memory import StageMemory, live_logit_bytes
from planner.numeric import Num, maximum, minimum, where
from planner.plan import Plan
from planner.techniques.engines.family import GATHERED_BYTES, PassBytes


def bucket_elements(case: Case, passes: PassBytes) -> Num:
    """Gradients of the largest bucket. [element]

    A tensor is never cut: a bucket is closed by the one that fills it, and an embedding or a head comes into
    one that is half full in the mean.

    References
    ----------
    .. [1] Aleph Alpha, ``scaling``, ``src/scaling/core/optimizer/allreduce.py``, ``allreduce_no_retain``,
       https://github.com/Aleph-Alpha/scaling.
    """
    full = case.traits.engine.bucket_elements
    ends = maximum(passes.gathered_head, passes.gathered_embedding) / GATHERED_BYTES
    return maximum(full + passes.product, full / 2 + ends)


def step_buffer_bytes(case: Case, passes: PassBytes) -> Num:
    """Bytes that the end of a step takes for a moment, beside the blocks that the passes leave cached. [byte]

    A bucket of gradients is laid end to end and cast to the type in which it is reduced, and as many stepped
    weights are gathered into one buffer.
    """
    each = case.gradient_bytes + case.traits.optimizer.all_reduced_bytes + GATHERED_BYTES
    return each * bucket_elements(case, passes)


def retried_seconds(case: Case, plan: Plan, passes: PassBytes, total_bytes: Num) -> Num:
    r"""Mean seconds of a step in which an allocator gives cached blocks back and takes them again. [s]

    .. math::
       t = \frac{t_r}{1 + e^{-\ln((S + B) / C) / \sigma}}

    Parameters
    ----------
    case : Case
        Time of a retry :math:`t_r`, capacity :math:`C`, spread of memory :math:`\sigma`.
    plan : Plan
        Its tensor-parallel degree.
    passes : PassBytes
        What the step's own buffers :math:`B` depend on.
    total_bytes : Num
        What the device reports in use at the peak of the passes, :math:`S`. [byte]

    Notes
    -----
    Blocks of the passes are many and small, and none but those of more logits than a bucket has gradients can
    hold a buffer of the step. Where the device has no room for it beside them, all that are free are returned
    to the device, which waits for it, and the next passes ask for each of them again. Allocators that have no
    ``retries`` never do.

    References
    ----------
    .. [1] PyTorch, ``c10/cuda/CUDACachingAllocator.cpp``, ``malloc`` and ``release_cached_blocks``; counted
       by ``num_alloc_retries`` of ``torch.cuda.memory_stats``.
    """
    traits, capacity = case.traits, case.pool.accelerator.memory_usable
    wanted = total_bytes + step_buffer_bytes(case, passes)
    held = passes.loss / live_logit_bytes(case, plan) > bucket_elements(case, passes)
    chance = overflow_probability(wanted, capacity, traits.allocator.memory_spread)
    return case.retry_seconds * np.where(held, 0.0, chance)


NEARLY_FULL = 0.88
"""Share of a device beyond which pipelines block at their messages: an estimate, from nanotron's sweep, where
7 of 13 predicted above it did, and few below. [-]"""


STALLING_NODES = 64
"""Nodes of a network that crowds from which pipelines block at their messages: of nanotron's sweep on EFA, 35
of 40 runs on 64 nodes did, 18 of 62 on 32 nodes, and one in nine on fewer. [-]"""


def stalled_seconds(case: Case, plan: Plan, total_bytes: Num) -> Num:
    """Seconds of a step in which messages between stages block, times the chance that they do. [s]

    They do where a device is nearly full, and on many nodes of a network that crowds. A stage in the middle
    takes part in four messages for each micro-batch, that of a pipeline of two in two.
    """
    traits, full = case.traits, NEARLY_FULL * float(case.pool.accelerator.memory_visible)
    network, nodes = case.pool.network, case.job.gpus / case.pool.gpus_per_node
    far = network is not None and bool(network.crowd) and nodes >= STALLING_NODES
    messages = 2.0 * minimum(plan.pp - 1.0, 2.0) * (plan.num_microbatches + plan.pp - 1.0)
    chance = 1.0 if far else overflow_probability(total_bytes, full, traits.allocator.memory_spread)
    return traits.allocator.full_message_seconds * messages * chance


def shown_bytes(case: Case, memory: StageMemory, needed: Num) -> Num:
    r"""What a device shows in use on the peak rank, blocks that its allocator keeps free included. [byte]

    .. math:: \begin{cases} S + (q - r)\,A + G & \text{where that is at most } C\\
              \max\left(S, \frac{S + C}{2}\right) & \text{else} \end{cases}

    Parameters
    ----------
    case : Case
        Share :math:`q` of the passes' bytes that an allocator of fixed segments holds besides them, of which
        it needs :math:`r`; capacity :math:`C`.
    memory : StageMemory
        Activations and workspace :math:`A` of each stage, free blocks of a stream of gathers :math:`G`.
    needed : Num
        What each stage must have, :math:`S`. [byte]

    Notes
    -----
    The second case is a device that would be full: at every miss it gives all free blocks back, and fills
    again, so that it is halfway in the mean, below what a job shows that never misses.

    References
    ----------
    .. [1] PyTorch, as in `retried_seconds`.
    """
    share = max(0.0, shown_share(case) - needed_share(case))
    passing = where(memory.at_step, 0.0, memory.activations + memory.workspace)
    held, capacity = needed + share * passing + memory.streamed, case.pool.accelerator.memory_usable
    full = maximum(needed, (needed + capacity) / 2)
    return numeric.max(where(held > capacity, full, held))
