"""Reinforcement learning of a language model: answers generated token by token, and weights handed on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from planner.numeric import Num, maximum, power

POINTS: Final = 48
"""Moments of a generation at which the batch that is left is priced. [-]"""


def expected_touched(experts: Num, topk: Num, tokens: Num) -> Num:
    r"""Return the experts that some tokens reach together under uniform routing. [-]

    .. math:: E \left(1 - (1 - k / E)^b\right)

    Parameters
    ----------
    experts, topk : Num
        Experts of a layer :math:`E`, and of them those that a token takes :math:`k`. [-]
    tokens : Num
        Tokens of one pass :math:`b`. [-]

    References
    ----------
    .. [1] W. Feller, "An Introduction to Probability Theory and Its Applications," vol. 1, 3rd ed., Wiley,
       1968, sec. IV.2 (occupancy).

    Examples
    --------
    >>> float(expected_touched(128, 8, 1)), round(float(expected_touched(128, 8, 64)), 1)
    (8.0, 125.9)
    """
    return experts * (1.0 - power(1.0 - topk / experts, tokens))


def decode_seconds(
    nbytes: Num, flops: Num, bandwidth: Num, rate: Num, communication: Num, launch: Num
) -> Num:
    r"""Return the seconds of one token of every sequence of a batch. [s]

    .. math:: t = \max(B / W, F / R) + t_m + t_l

    Parameters
    ----------
    nbytes : Num
        Weights and cache :math:`B` that a rank reads. [byte]
    flops : Num
        Arithmetic :math:`F` of a rank. [FLOP]
    bandwidth : Num
        Memory bandwidth that kernels reach :math:`W`. [byte/s]
    rate : Num
        Arithmetic that they reach :math:`R`. [FLOP/s]
    communication, launch : Num
        Collectives between layers, and kernels' starts. [s]

    References
    ----------
    .. [1] S. Williams, A. Waterman, D. Patterson, "Roofline: An Insightful Visual Performance Model
       for Multicore Architectures," Commun. ACM 52(4), 2009, doi:10.1145/1498765.1498785.
    .. [2] R. Pope et al., "Efficiently Scaling Transformer Inference," arXiv:2211.05102, 2022, sec. 2.2.
    """
    return maximum(nbytes / bandwidth, flops / rate) + communication + launch


def left_share(token: Num, mean_answer: Num, longest_answer: Num) -> Num:
    r"""Return the share of answers that are longer than so many tokens. [-]

    .. math:: S(x) = (1 - x / L)^{L / r - 1}

    the law of one parameter between 0 and :math:`L` whose mean is :math:`r`: all alike where both are the
    same, uniform where the longest is twice the mean.

    Parameters
    ----------
    token : Num
        Tokens :math:`x`. [-]
    mean_answer, longest_answer : Num
        Of answers, :math:`r` and :math:`L`. [-]

    References
    ----------
    .. [1] N. L. Johnson, S. Kotz, N. Balakrishnan, "Continuous Univariate Distributions," vol. 2, 2nd ed.,
       Wiley, 1995, ch. 25 (the beta law with a first parameter of 1).

    Examples
    --------
    >>> float(left_share(500, 1000, 1000)), float(left_share(500, 1000, 2000))
    (1.0, 0.75)
    """
    return power(maximum(1.0 - token / longest_answer, 0.0), longest_answer / mean_answer - 1.0)


def generation_seconds(
    answers: float,
    at_once: float,
    mean_answer: float,
    longest_answer: float,
    step: Callable[[float, float], float],
) -> float:
    r"""Return the seconds until a replica has generated all of its answers, a new one in each free place. [s]

    .. math:: t = \left(\frac{n}{m} - 1\right)^+ r\, t(m, r / 2) + \int_0^L t(\min(n, m) S(x), x)\, dx

    Full batches while answers wait for a place, then a last one that thins out until the longest answer ends.

    Parameters
    ----------
    answers, at_once : float
        All :math:`n`, and those that the cache holds at a time :math:`m`. [-]
    mean_answer, longest_answer : float
        Tokens of an answer, :math:`r` and :math:`L`. [-]
    step : callable
        Seconds of one token :math:`t` from the sequences and the tokens that each has generated. [s]

    References
    ----------
    .. [1] G.-I. Yu et al., "Orca: A Distributed Serving System for Transformer-Based Generative Models,"
       OSDI 2022, sec. 3 (scheduling by iteration).
    .. [2] W. Fu et al., "AReaL," arXiv:2505.24298, 2025, sec. 3 (the longest answer ends a batch).

    Examples
    --------
    >>> round(generation_seconds(64, 64, 100, 100, lambda sequences, token: 0.01), 6)
    1.0
    >>> round(generation_seconds(128, 64, 100, 200, lambda sequences, token: 0.01), 6)
    3.0
    """
    full = max(answers / at_once - 1.0, 0.0) * mean_answer * step(at_once, mean_answer / 2.0)
    wide, first = longest_answer / POINTS, min(answers, at_once)
    middles = ((point + 0.5) * wide for point in range(POINTS))
    last = sum(
        wide * step(max(first * float(left_share(token, mean_answer, longest_answer)), 1.0), token)
        for token in middles
    )
    return full + last


def reshard_share(tp: Num, pp: Num, engine_ranks: Num) -> Num:
    r"""Return what a rank receives where training's shards become those of an engine on the same ranks. [-]

    .. math:: \frac{1}{g} - \frac{1}{\max(t, g)\, p}

    A rank of the engine needs a part of every layer, and has in training a part of some.

    Parameters
    ----------
    tp, pp : Num
        Ranks that share a layer in training :math:`t`, and stages :math:`p`. [-]
    engine_ranks : Num
        Ranks that share a layer in generation :math:`g`. [-]

    References
    ----------
    .. [1] G. Sheng et al., "HybridFlow," arXiv:2409.19256, 2024, sec. 5.4 and table 2: (t p - g) / (g t p)
       where g divides t, with a peak of M / g and nothing twice.

    Examples
    --------
    >>> [float(reshard_share(*three)) for three in ((8, 1, 2), (8, 1, 8), (1, 2, 4))]
    [0.375, 0.0, 0.125]
    """
    return 1.0 / engine_ranks - 1.0 / (maximum(tp, engine_ranks) * pp)


def push_seconds(
    nbytes: Num, senders: Num, receivers: Num, engine_ranks: Num, bandwidth: Num, latency: Num
) -> Num:
    r"""Return the least seconds in which trainers write all weights to every replica that generates.

    .. math:: t = \frac{B}{W} \max\left(\frac{n_r / g}{n_s}, \frac{1}{g}\right) + \lambda

    every sender with its share of all copies, every receiver with its own shard.

    Parameters
    ----------
    nbytes : Num
        Weights of the model :math:`B`. [byte]
    senders, receivers : Num
        Ranks that train :math:`n_s` and that generate :math:`n_r`. [-]
    engine_ranks : Num
        Ranks of one replica :math:`g`. [-]
    bandwidth : Num
        Of one rank's link between them :math:`W`. [byte/s]
    latency : Num
        Of that link :math:`\lambda`. [s]

    Returns
    -------
    Num
        Elapsed time, without what prepares the weights. [s]

    References
    ----------
    .. [1] N. Licker et al., "RDMA Point-to-Point Communication for LLM Systems," arXiv:2510.27656, 2025,
       sec. 5: every training rank writes straight into the ranks that generate.

    Examples
    --------
    A trillion parameters of a byte, from 256 ranks to 128 at 400 Gbit/s each. The paper prints 1.3 s with
    what prepares the weights, and no size of a replica; in replicas of 16 the links alone take

    >>> round(push_seconds(1e12, 256, 128, 16, 50e9, 1e-5), 2)
    1.25
    """
    copies = receivers / engine_ranks
    return nbytes / bandwidth * maximum(copies / senders, 1.0 / engine_ranks) + latency
