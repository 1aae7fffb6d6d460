"""What leaves the accelerator for host memory, and what that moves over the host link."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Literal

from planner.dataclasses import dataclass, replace
from planner.errors import InputError, Problem, nearest
from planner.numeric import Num, minimum
from planner.registry import find
from planner.units import is_whole

Place = Literal["device", "host", "disk"]


@dataclass(frozen=True)
class Offload:
    """One choice of what is kept in host memory."""

    name: str
    """As on the command line, before the colon."""
    cite: str
    """Where it is described."""
    states: Place
    """Where optimizer states rest: on the ``device``, in the ``host``'s memory, or on ``disk``, its NVMe. The
    optimizer runs on the host where they are not on the device."""
    down_bytes: float
    up_bytes: float
    """Bytes of each parameter of the rank's shard that go to the host and come back in a step. [byte]"""
    weights: Place = "device"
    """Where 16-bit weights rest, alike; those that rest elsewhere are fetched for every gather."""
    searched: bool = True
    """Whether a search tries it where the user leaves the offload open."""
    counted: bool = False
    """Whether a number of layers follows the name, as in ``activations:20``."""
    named: tuple[str, ...] = ()
    """Modules of which some follow the name, as in ``modules:core_attn+attn_proj``."""
    layers: Num = 0.0
    """Layers of each stage whose saved tensors go to the host in forward and come back in backward. [-]"""
    modules: tuple[str, ...] = ()
    """Modules of these layers whose inputs go, where not all that is saved."""
    shared: bool = False
    """Whether a share of the states may follow the name, as in ``optimizer:40%``."""
    share: Num = 1.0
    """Share of the optimizer states that leave the device; the device steps the others meanwhile. [-]"""
    aliases: tuple[str, ...] = ()
    """Other names."""

    @property
    def optimizer(self) -> bool:
        """Whether the optimizer runs on the host, its states being there or on disk."""
        return self.states != "device"

    @property
    def hosted(self) -> Num:
        """Share of the optimizer states that the host steps. [-]"""
        return self.share if self.optimizer else 0.0

    @property
    def fetches(self) -> bool:
        """Whether weights come to the device for every gather."""
        return self.weights != "device"

    @property
    def disk(self) -> bool:
        """Whether anything rests on disk."""
        return "disk" in (self.states, self.weights)

    @property
    def bare(self) -> bool:
        """Whether neither layers nor modules follow the name."""
        return not (self.counted or self.named)

    def of(self, layers: Num) -> Offload:
        """Return the choice for so many layers of each stage."""
        return replace(self, layers=layers)

    def of_share(self, share: Num) -> Offload:
        """Return the choice for a share of the states."""
        return replace(self, share=share)

    def of_modules(self, text: str) -> Offload:
        """Return the choice for modules joined by plus signs, in all layers.

        Raises
        ------
        ValueError
            With what is accepted.
        """
        asked = text.split("+")
        unknown = [name for name in asked if name not in self.named]
        if unknown:
            near = nearest(unknown[0], self.named)
            expected = f"{self.name}: and modules joined by +, out of {', '.join(self.named)}"
            raise ValueError(expected + (f" ({near}?)" if near else ""))
        return replace(self, layers=math.inf, modules=tuple(one for one in self.named if one in asked))

    @property
    def spelled(self) -> str:
        """The choice as a plan has it, with its number of layers, its modules or its share."""
        if self.shared and self.share < 1.0:
            return f"{self.name}:{100.0 * self.share:g}%"
        if self.modules:
            return f"{self.name}:{'+'.join(self.modules)}"
        return f"{self.name}:{self.layers:.0f}" if self.layers else self.name


def read_offload(table: Mapping[str, Offload], text: str, where: str = "--offload") -> Offload:
    """Read ``none``, ``optimizer``, ``optimizer:40%``, ``activations:20`` or ``modules:core_attn+attn_proj``.

    Raises
    ------
    InputError
        If the name or a module is unknown, its number of layers is missing or none, or its share is none.
    """
    name, colon, argument = text.partition(":")
    entry = find(table, name, where)
    if entry.counted and is_whole(argument) and int(argument) > 0:
        return entry.of(float(argument))
    if entry.named:
        try:
            return entry.of_modules(argument)
        except ValueError as error:
            raise InputError(Problem(where, repr(text), str(error))) from None
    if entry.counted:
        expected, hint = f"{entry.name}:N with N layers of each stage", f"{entry.name}:1"
        raise InputError(Problem(where, repr(text), expected, hint))
    if not colon:
        return entry
    if not entry.shared:
        raise InputError(Problem(where, repr(text), f"{entry.name}, without an argument", entry.name))
    share = share_of(argument)
    if share is None:
        expected = f"{entry.name}, or with the share of the states that goes, above 0 and at most 100%"
        raise InputError(Problem(where, repr(text), expected, f"{entry.name}:50%"))
    return entry.of_share(share)


def share_of(text: str) -> float | None:
    """Read a share above 0 and at most 1, as a number or in percent; None for anything else.

    Examples
    --------
    >>> share_of("40%"), share_of("0.4"), share_of("40"), share_of("0%")
    (0.4, 0.4, None, None)
    """
    found = re.fullmatch(r"(\d{1,3}(?:\.\d{1,6})?|\.\d{1,6})(%?)", text)
    share = float(found[1]) / (100.0 if found[2] else 1.0) if found else 0.0
    return share if 0.0 < share <= 1.0 else None


HOST_ADAM_SECONDS = 0.25e-9
"""Seconds of the vectorised host Adam for one parameter: .22, 1.03 and 2.57 s for 1, 4 and 10 billion.

References
----------
.. [1] J. Ren et al., "ZeRO-Offload," arXiv:2101.06840, 2021, table 4.
"""


SUB_GROUP = 100_000_000
"""Parameters of a tile that is stepped at once where states rest on disk. [element]"""

STATE_BUFFERS = 8
"""Buffers of a tile's size: master, gradient and two moments, of the tile that comes and of one that goes."""

WEIGHT_BUFFERS = 5
"""Buffers for weights that come from disk, each of a tile's size. [-]"""


def buffered_bytes(offload: Offload) -> float:
    """Bytes of pinned host memory of one rank through which pass states and weights that rest on disk. [byte]

    References
    ----------
    .. [1] DeepSpeed edaa7221, ``deepspeed/runtime/zero/offload_config.py``: ``buffer_count`` of 4 for states
       (twice under ``pipeline_read`` and ``pipeline_write``) and of 5 for weights, ``buffer_size`` of 1e8.
    """
    states = STATE_BUFFERS * SUB_GROUP * 4.0 * (offload.states == "disk")
    return states + WEIGHT_BUFFERS * SUB_GROUP * 2.0 * (offload.weights == "disk")


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
    """Bytes of optimizer states and gradients in the memory of one host. [byte]

    Parameters
    ----------
    nbytes : Num
        Bytes of one whole copy. [byte]
    copies : Num
        Copies that all ranks hold together: more than one where shards are replicated. [-]
    ranks_per_host, ranks : Num
        Ranks of one host, and of the job; each holds an equal part. [-]

    References
    ----------
    .. [1] J. Ren et al., "ZeRO-Offload," arXiv:2101.06840, 2021, sec. 4.1: each rank keeps its own shard.

    Examples
    --------
    >>> host_state_bytes(16e9, 1, 8, 64)
    2000000000.0
    """
    return nbytes * copies * ranks_per_host / ranks


def host_optimizer_seconds(params: Num, ranks_per_host: Num, adam_seconds: float = HOST_ADAM_SECONDS) -> Num:
    """Seconds of Adam on the host's processors, which the ranks of a node share. [s]

    Parameters
    ----------
    params : Num
        Parameters of one rank's shard. [element]
    ranks_per_host : Num
        Ranks whose shards the host updates. [-]
    adam_seconds : float
        Seconds for one parameter. [s]

    References
    ----------
    .. [1] J. Ren et al., "ZeRO-Offload," arXiv:2101.06840, 2021, table 4.

    Examples
    --------
    >>> host_optimizer_seconds(1e9, 1)
    0.25
    """
    return params * ranks_per_host * adam_seconds


def disk_step_seconds(params: Num, nbytes: Num, ranks_per_host: Num, disk_read: Num, disk_write: Num) -> Num:
    """Seconds in which a node's disks give and take what the optimizer steps. [s]

    Parameters
    ----------
    params : Num
        Parameters of one rank's shard. [element]
    nbytes : Num
        Bytes of each that are read, and written again. [byte]
    ranks_per_host : Num
        Ranks that share the disks. [-]
    disk_read, disk_write : Num
        Rates of all disks of a node together. [byte/s]

    References
    ----------
    .. [1] S. Rajbhandari et al., "ZeRO-Infinity," arXiv:2104.07857, 2021, sec. 5.1: each rank reads and
       writes its own shard, all of them at once.

    Examples
    --------
    >>> round(disk_step_seconds(1e9, 16.0, 8, 32e9, 16e9), 9)
    12.0
    """
    return params * nbytes * ranks_per_host * (1.0 / disk_read + 1.0 / disk_write)


def fetch_seconds(nbytes: Num, host_link: Num, ranks_per_host: Num, disk_read: Num | None = None) -> Num:
    """Seconds in which a rank's part of the weights comes up, from the host or from the node's disks. [s]

    Parameters
    ----------
    nbytes : Num
        Its part. [byte]
    host_link : Num
        Rate of its host link, one direction. [byte/s]
    ranks_per_host : Num
        Ranks that read from the disks at once. [-]
    disk_read : Num, optional
        Rate of all disks of a node together, where weights rest there: the slower of the two counts, since
        prefetched buffers keep both busy. [byte/s]

    References
    ----------
    .. [1] S. Rajbhandari et al., "ZeRO-Infinity," arXiv:2104.07857, 2021, sec. 6.1: parts come over all links
       at once and are gathered then.

    Examples
    --------
    >>> fetch_seconds(2e9, 50e9, 8), fetch_seconds(2e9, 50e9, 8, 16e9)
    (0.04, 1.0)
    """
    slowest = host_link if disk_read is None else minimum(host_link, disk_read / ranks_per_host)
    return nbytes / slowest
