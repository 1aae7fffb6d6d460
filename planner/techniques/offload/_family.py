"""What leaves the accelerator for host memory, and what that moves over the host link."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from planner.errors import InputError, Problem
from planner.numeric import Num
from planner.registry import find
from planner.units import is_whole


@dataclass(frozen=True)
class Offload:
    """One choice of what is kept in host memory.

    Parameters
    ----------
    name, aliases : str, tuple of str
        As on the command line, before the colon.
    cite : str
        Where it is described.
    optimizer : bool
        Whether optimizer states live, and the optimizer runs, on the host.
    down_bytes, up_bytes : float
        Bytes of each parameter of the rank's shard that go to the host and come back in a step. [byte]
    counted : bool
        Whether a number of layers follows the name, as in ``activations:20``.
    layers : float
        Layers of each stage whose saved tensors go to the host in forward and come back in backward. [-]
    """

    name: str
    cite: str
    optimizer: bool
    down_bytes: float
    up_bytes: float
    counted: bool = False
    layers: Num = 0.0
    aliases: tuple[str, ...] = ()

    def of(self, layers: Num) -> Offload:
        """Return the choice for so many layers of each stage."""
        return replace(self, layers=layers)

    @property
    def spelled(self) -> str:
        """The choice as a plan has it, with its number of layers."""
        return f"{self.name}:{self.layers:.0f}" if self.layers else self.name


def read_offload(table: Mapping[str, Offload], text: str, where: str = "--offload") -> Offload:
    """Read ``none``, ``optimizer`` or ``activations:20``.

    Raises
    ------
    InputError
        If the name is unknown, or its number of layers is missing or no number of layers.
    """
    name, colon, argument = text.partition(":")
    entry = find(table, name, where)
    if entry.counted and is_whole(argument) and int(argument) > 0:
        return entry.of(float(argument))
    if entry.counted:
        expected, hint = f"{entry.name}:N with N layers of each stage", f"{entry.name}:1"
        raise InputError(Problem(where, repr(text), expected, hint))
    if colon:
        raise InputError(Problem(where, repr(text), f"{entry.name}, without an argument", entry.name))
    return entry


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


def host_state_bytes(nbytes: Num, copies: Num, ranks_per_host: Num, ranks: Num) -> Num:
    """Bytes of optimizer states and gradients in the memory of one host.

    Parameters
    ----------
    nbytes : Num
        Bytes of one whole copy. [byte]
    copies : Num
        Copies that all ranks hold together: more than one where shards are replicated. [-]
    ranks_per_host, ranks : Num
        Ranks of one host, and of the job; each holds an equal part. [-]

    Returns
    -------
    Num
        Memory. [byte]

    References
    ----------
    .. [1] J. Ren et al., "ZeRO-Offload," arXiv:2101.06840, 2021, sec. 4.1: each rank keeps its own shard.

    Examples
    --------
    >>> host_state_bytes(16e9, 1, 8, 64)
    2000000000.0
    """
    return nbytes * copies * ranks_per_host / ranks


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
