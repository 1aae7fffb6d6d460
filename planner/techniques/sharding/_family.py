"""What a data-parallel group spreads over its ranks, by ZeRO stage."""

from __future__ import annotations

from dataclasses import dataclass

from planner.numeric import Num


@dataclass(frozen=True)
class Sharding:
    """One stage of the ZeRO family.

    Parameters
    ----------
    name : str
        ``zero0`` to ``zero3``.
    stage : int
        The contract's number.
    cite : str
        Where it is described.
    shards_optimizer, shards_gradients, shards_parameters : bool
        What each rank keeps only a part of.
    aliases : tuple of str
        Other spellings.
    keeps_gathered : bool
        Whether parameters that are sharded between steps stay gathered from forward to backward.
    """

    name: str
    stage: int
    cite: str
    shards_optimizer: bool
    shards_gradients: bool
    shards_parameters: bool
    aliases: tuple[str, ...] = ()
    keeps_gathered: bool = False

    def optimizer_shards(self, shards: Num) -> Num:
        """Ranks that share the optimizer states. [-]"""
        return shards if self.shards_optimizer else 1.0

    def gradient_shards(self, shards: Num) -> Num:
        """Ranks that share the gradients. [-]"""
        return shards if self.shards_gradients else 1.0

    def parameter_shards(self, shards: Num) -> Num:
        """Ranks that share the parameters. [-]"""
        return shards if self.shards_parameters else 1.0


def state_bytes(
    params: Num,
    shards: Num,
    sharding: Sharding,
    weight: Num = 2.0,
    gradient: Num = 2.0,
    optimizer: Num = 12.0,
) -> Num:
    r"""Bytes of weights, gradients and optimizer states that one rank holds.

    .. math:: \Psi \left(\frac{w}{N_p} + \frac{g}{N_g} + \frac{K}{N_o}\right)

    Parameters
    ----------
    params : Num
        Parameters :math:`\Psi` of the group. [element]
    shards : Num
        Ranks of the group. [-]
    sharding : Sharding
        Which of the divisors are the group and which are 1.
    weight, gradient, optimizer : Num
        Bytes of one parameter's weight, gradient and optimizer state. [byte]

    Returns
    -------
    Num
        Bytes. [byte]

    References
    ----------
    .. [1] S. Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models,"
       arXiv:1910.02054, 2020, sec. 5 and table 1.
    """
    return params * (
        weight / sharding.parameter_shards(shards)
        + gradient / sharding.gradient_shards(shards)
        + optimizer / sharding.optimizer_shards(shards)
    )
