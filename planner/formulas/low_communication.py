r"""What replicas on slow links send each other, and how much of the time they compute.

Symbols: :math:`R` replicas, each with a copy of the model; :math:`H` inner steps between two exchanges of the
same parameters; :math:`c` time of an inner step without them; :math:`W` rate of a link.
"""

from __future__ import annotations

from planner.formulas.overlap import exposed_seconds
from planner.numeric import Num, minimum, sqrt


def stream_bandwidth(bandwidth: Num, streams: Num, stream_window: Num, round_trip: Num) -> Num:
    r"""Rate of a long link that several connections share. [byte/s]

    .. math:: W = \min(B, n w / t)

    Parameters
    ----------
    bandwidth : Num
        Rate :math:`B` of the link, one direction. [byte/s]
    streams : Num
        Connections :math:`n` at once. [-]
    stream_window : Num
        Bytes :math:`w` that one connection has under way at most. [byte]
    round_trip : Num
        Time :math:`t` until a byte is acknowledged. [s]

    References
    ----------
    .. [1] M. Keiblinger et al., "Prime Collective Communications Library," arXiv:2505.14065: several
       connections for each pair of peers.

    Examples
    --------
    >>> stream_bandwidth(1e9, 8.0, 16e6, 0.5)
    256000000.0
    """
    return minimum(bandwidth, streams * stream_window / round_trip)


def gathered_bytes(nbytes: Num, replicas: Num) -> Num:
    r"""Bytes that each replica receives where all gather what each has: grows with their number. [byte]

    .. math:: (R - 1) S

    Parameters
    ----------
    nbytes : Num
        What each replica sends :math:`S`. [byte]
    replicas : Num
        Replicas :math:`R`. [-]

    References
    ----------
    .. [1] A. Sarfi et al., "Communication Efficient LLM Pre-training with SparseLoCo," arXiv:2508.15706.

    Examples
    --------
    >>> gathered_bytes(100.0, 4.0)
    300.0
    """
    return (replicas - 1.0) * nbytes


def exchange_seconds(nbytes: Num, bandwidth: Num, latency: Num, hops: Num) -> Num:
    r"""Time of an exchange over a slow link. [s]

    .. math:: t = S / W + n \epsilon

    Parameters
    ----------
    nbytes : Num
        Bytes :math:`S` that go through the link in one direction. [byte]
    bandwidth : Num
        Rate :math:`W`. [byte/s]
    latency : Num
        Time :math:`\epsilon` of one hop. [s]
    hops : Num
        Hops :math:`n` that follow one another. [-]

    References
    ----------
    .. [1] Z. Charles et al., "Communication-Efficient Language Model Training Scales Reliably and Robustly:
       Scaling Laws for DiLoCo," arXiv:2503.09799, app. B.2.

    Examples
    --------
    >>> exchange_seconds(1e9, 1e8, 0.5, 2.0)
    11.0
    """
    return nbytes / bandwidth + hops * latency


def exchange_period(compute: Num, exchange: Num, window: Num) -> Num:
    r"""Time from one exchange to the next, where each may hide behind some of the compute between them. [s]

    .. math:: T = C + \max(0, t - \min(w, C))

    The link carries one exchange at a time, so :math:`T \ge t` whatever the window.

    Parameters
    ----------
    compute : Num
        Compute :math:`C` between two exchanges: all inner steps, or those from one fragment to the next. [s]
    exchange : Num
        Time :math:`t` of one exchange. [s]
    window : Num
        Compute :math:`w` after its start for which its result is not needed. [s]

    References
    ----------
    .. [1] S. Jaghouar et al., "INTELLECT-1 Technical Report," arXiv:2412.01152, table 2 (no window).
    .. [2] A. Douillard et al., "Streaming DiLoCo with overlapping communication," arXiv:2501.18512, sec. 2.2.

    Examples
    --------
    >>> exchange_period(100.0, 10.0, 0.0), exchange_period(100.0, 10.0, 8.0), exchange_period(4.0, 10.0, 8.0)
    (110.0, 102.0, 10.0)
    """
    return compute + exposed_seconds(exchange, minimum(window, compute))


def cosine_rounds(base_steps: Num, least_rate: Num) -> Num:
    r"""Rounds for each step by the quadratic rule over a cosine schedule. [-]

    .. math::
        \frac{1}{H_0} \left(\left(\frac{1 + m}{2}\right)^2
        + \frac{1}{2} \left(\frac{1 - m}{2}\right)^2\right)

    Parameters
    ----------
    base_steps : Num
        Inner steps :math:`H_0` at the highest learning rate. [-]
    least_rate : Num
        The last learning rate over the highest :math:`m`. [-]

    References
    ----------
    .. [1] Derived from X. Gu et al., arXiv:2310.14423, eq. 2: the mean of the squared rate, as many rounds
       being long.

    Examples
    --------
    >>> cosine_rounds(1.0, 1.0), cosine_rounds(1.0, 0.0)
    (1.0, 0.375)
    """
    middle, swing = 0.5 * (1.0 + least_rate), 0.5 * (1.0 - least_rate)
    return (middle * middle + 0.5 * swing * swing) / base_steps


def sparse_bytes(density: Num, value_bytes: Num, index_bytes: Num) -> Num:
    r"""Bytes sent for each parameter where only the largest go, each with its place. [byte/element]

    .. math:: k (v + i)

    Parameters
    ----------
    density : Num
        Share :math:`k` of the parameters that go. [-]
    value_bytes, index_bytes : Num
        Size of a value :math:`v` and of its place :math:`i`. [byte/element]

    References
    ----------
    .. [1] A. Sarfi et al., "Communication Efficient LLM Pre-training with SparseLoCo," arXiv:2508.15706:
       2-bit values with their places in chunks of 4,096.

    Examples
    --------
    >>> sparse_bytes(0.5, 0.25, 1.5)
    0.875
    """
    return density * (value_bytes + index_bytes)


def feedback_bytes(copies: Num, rest_bytes: Num) -> Num:
    r"""Bytes moved in device memory for each parameter to keep what an exchange does not send. [byte/element]

    Each copy is read before the exchange and written after it.

    .. math:: 2 n q

    Parameters
    ----------
    copies : Num
        Copies :math:`n` of the parameters that are kept: the error alone, or also what was sent or a
        momentum. [-]
    rest_bytes : Num
        Size :math:`q` of an element of them. [byte/element]

    References
    ----------
    .. [1] Y. Gao, R. Islamov and S. Stich, "EControl: Fast Distributed Optimization with Compression and
       Error Control," arXiv:2311.05645: the error and the sum of what was sent, both updated.

    Examples
    --------
    >>> feedback_bytes(1.0, 4.0), feedback_bytes(2.0, 4.0)
    (8.0, 16.0)
    """
    return 2.0 * copies * rest_bytes


def slowest_seconds(step: Num, steps: Num, deviation: Num, slowest: Num) -> Num:
    r"""Expected time until the slowest of several replicas has done its inner steps. [s]

    .. math:: H c (1 + z \sigma / \sqrt{H})

    Parameters
    ----------
    step : Num
        Mean time :math:`c` of an inner step. [s]
    steps : Num
        Inner steps :math:`H` before all wait for one another. [-]
    deviation : Num
        Standard deviation :math:`\sigma` of a step over its mean; steps are independent. [-]
    slowest : Num
        Expected largest :math:`z` of as many standard normal numbers as there are replicas. [-]

    References
    ----------
    .. [1] H. A. David and H. N. Nagaraja, "Order Statistics," 3rd ed., 2003, doi:10.1002/0471722162; the sum
       of steps is normal by the central limit theorem.

    Examples
    --------
    >>> slowest_seconds(1.0, 100.0, 0.5, 0.0), slowest_seconds(1.0, 4.0, 0.5, 1.0)
    (100.0, 5.0)
    """
    return steps * step + sqrt(steps) * deviation * slowest * step


def boundary_bytes(tokens: Num, hidden: Num, activation_bytes: Num) -> Num:
    r"""Bytes that a pipeline sends over the link between two stages in one direction. [byte]

    Compute of a stage grows with the square of the width, this with the width alone: the wider the model,
    the less the link matters.

    .. math:: n h q

    Parameters
    ----------
    tokens : Num
        Tokens :math:`n`. [-]
    hidden : Num
        Width :math:`h` of the residual stream, or the rank of what stands for it. [element]
    activation_bytes : Num
        Size :math:`q` of an element on the wire. [byte/element]

    References
    ----------
    .. [1] M. Ryabinin et al., "SWARM Parallelism: Training Large Models Can Be Surprisingly
       Communication-Efficient," arXiv:2301.11913, sec. 3.1 (the square-cube law).

    Examples
    --------
    >>> boundary_bytes(2048.0, 4096.0, 2.0)
    16777216.0
    """
    return tokens * hidden * activation_bytes
