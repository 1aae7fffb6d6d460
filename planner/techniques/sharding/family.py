"""What a data-parallel group spreads over its ranks, by ZeRO stage."""

from __future__ import annotations

from planner.dataclasses import dataclass
from planner.numeric import Num


@dataclass(frozen=True)
class Sharding:
    """One stage of the ZeRO family."""

    name: str
    """``zero0`` to ``zero3``."""
    stage: int
    """The contract's number."""
    cite: str
    """Where it is described."""
    shards_optimizer: bool
    shards_gradients: bool
    shards_parameters: bool
    """What each rank keeps only a part of."""
    aliases: tuple[str, ...] = ()
    """Other spellings."""
    keeps_gathered: bool = False
    """Whether parameters that are sharded between steps stay gathered from forward to backward."""

    def optimizer_shards(self, shards: Num) -> Num:
        """Ranks that share the optimizer states. [-]"""
        return shards if self.shards_optimizer else 1.0

    def gradient_shards(self, shards: Num) -> Num:
        """Ranks that share the gradients. [-]"""
        return shards if self.shards_gradients else 1.0

    def parameter_shards(self, shards: Num) -> Num:
        """Ranks that share the parameters. [-]"""
        return shards if self.shards_parameters else 1.0


def sharded_states(
    kept_weights: Num, kept_gradients: Num, kept_states: Num, shards: Num, sharding: Sharding
) -> tuple[Num, Num, Num]:
    r"""Weights, gradients and optimizer states that one rank holds.

    .. math:: \frac{W}{N_p},\; \frac{G}{N_g},\; \frac{O}{N_o}

    Parameters
    ----------
    kept_weights, kept_gradients, kept_states : Num
        Weights :math:`W`, gradients :math:`G` and optimizer states :math:`O` of the group: their bytes, or
        their elements. [byte or element]
    shards : Num
        Ranks of the group. [-]
    sharding : Sharding
        Which of the divisors are the group and which are 1.

    Returns
    -------
    tuple of Num
        The rank's part of each. [byte or element]

    References
    ----------
    .. [1] S. Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models,"
       arXiv:1910.02054, 2020, sec. 5 and table 1.
    """
    return (
        kept_weights / sharding.parameter_shards(shards),
        kept_gradients / sharding.gradient_shards(shards),
        kept_states / sharding.optimizer_shards(shards),
    )
