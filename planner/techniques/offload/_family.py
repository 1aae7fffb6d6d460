"""What leaves the accelerator for host memory, and what that moves over the host link."""

from __future__ import annotations

from dataclasses import dataclass

from planner.numeric import Num


@dataclass(frozen=True)
class Offload:
    """One choice of what is kept in host memory.

    Parameters
    ----------
    name, aliases : str, tuple of str
        As on the command line.
    cite : str
        Where it is described.
    optimizer : bool
        Whether optimizer states live, and the optimizer runs, on the host.
    down_bytes, up_bytes : float
        Bytes of each parameter of the rank's shard that go to the host and come back in a step. [byte]
    """

    name: str
    cite: str
    optimizer: bool
    down_bytes: float
    up_bytes: float
    aliases: tuple[str, ...] = ()


HOST_ADAM_SECONDS = 0.25e-9
"""Seconds of the vectorised host Adam for one parameter: .22, 1.03 and 2.57 s for 1, 4 and 10 billion.

References
----------
.. [1] J. Ren et al., "ZeRO-Offload," arXiv:2101.06840, 2021, table 4.
"""


def offload_seconds(params: Num, down_bytes: Num, up_bytes: Num, host_link: Num) -> Num:
    """Seconds to move a shard's gradients down and its weights up.

    Parameters
    ----------
    params : Num
        Parameters of the rank's shard. [element]
    down_bytes, up_bytes : Num
        Bytes moved for each of them. [byte]
    host_link : Num
        Rate of the host link, one direction. [byte/s]

    Returns
    -------
    Num
        Time; the two directions are one after the other, around the optimizer. [s]

    References
    ----------
    .. [1] J. Ren et al., "ZeRO-Offload," arXiv:2101.06840, 2021, sec. 3: 4 bytes for each parameter.
    """
    return params * (down_bytes + up_bytes) / host_link


def host_optimizer_seconds(params: Num, ranks_per_host: Num) -> Num:
    """Seconds of Adam on the host's processors, which the ranks of a node share.

    Parameters
    ----------
    params : Num
        Parameters of one rank's shard. [element]
    ranks_per_host : Num
        Ranks whose shards the host updates. [-]

    Returns
    -------
    Num
        Time. [s]

    References
    ----------
    .. [1] J. Ren et al., "ZeRO-Offload," arXiv:2101.06840, 2021, table 4.

    Examples
    --------
    >>> host_optimizer_seconds(1e9, 1)
    0.25
    """
    return params * ranks_per_host * HOST_ADAM_SECONDS
