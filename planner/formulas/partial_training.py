"""Training of parts of a model: stages that are skipped, experts of other nodes, no gradients at all."""

from __future__ import annotations

from planner.numeric import Num


def visited_share(visited: Num, stages: Num) -> Num:
    r"""Share of a pipeline's compute and hops where each micro-batch visits some of its stages. [-]

    Skipped FLOPs are skipped learning: a step is not that of the whole model.

    .. math:: v / s

    Parameters
    ----------
    visited : Num
        Stages :math:`v` that a micro-batch visits. [-]
    stages : Num
        Stages :math:`s` of the pipeline. [-]

    References
    ----------
    .. [1] N. Blagoev et al., "SkipPipe: Partial and Reordered Pipelining Framework for Training LLMs in
       Heterogeneous Networks," arXiv:2502.19913.

    Examples
    --------
    >>> visited_share(3.0, 6.0)
    0.5
    """
    return visited / stages


def own_experts_sent(dense: Num, routed: Num) -> Num:
    r"""Share of an all-reduce of the whole model that is sent where each node trains its own experts. [-]

    The dense part is averaged; each expert goes once from the node that trained it to the others, half of
    what an all-reduce of it sends.

    .. math:: \frac{N_d + N_e / 2}{N_d + N_e}

    Parameters
    ----------
    dense, routed : Num
        Parameters outside routed experts :math:`N_d` and of them :math:`N_e`. [element]

    References
    ----------
    .. [1] J. Zhang et al., arXiv:2602.11543, 2026.

    Examples
    --------
    >>> own_experts_sent(1.0, 3.0)
    0.625
    """
    return (dense + routed / 2.0) / (dense + routed)


def seeded_step_bytes(machines: Num, directions: Num) -> Num:
    r"""Bytes that a machine receives in a zeroth-order step whose directions all draw from shared seeds.

    .. math:: k (n - 1)

    Parameters
    ----------
    machines : Num
        Machines :math:`n`, each with one byte for each of its directions. [-]
    directions : Num
        Directions :math:`k` that each tries. [-]

    Returns
    -------
    Num
        Bytes, whatever the size of the model. [-]

    References
    ----------
    .. [1] E. Zelikman et al., "Just One Byte (per gradient): A Note on Low-Bandwidth Decentralized Language
       Model Finetuning Using Shared Randomness," arXiv:2306.10015.

    Examples
    --------
    >>> seeded_step_bytes(9.0, 1.0)
    8.0
    """
    return directions * (machines - 1.0)
