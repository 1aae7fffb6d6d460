"""What DeepSpeed's own estimators say a rank and a node need for states, before any activation.

They count fp32 gradients where the planner counts those that are kept, and half as much again on the host.
"""

from __future__ import annotations

from typing import Final

from planner.numeric import Num, maximum

HOST_FACTOR: Final = 1.5
"""What the host needs over what is counted: ``additional_buffer_factor``. [-]"""

STATE_BYTES: Final = 18.0
"""Gradients in 16 and 32 bit, weights in 32, two moments. [byte]"""


def estimated_zero2_bytes(params: Num, ranks: Num, kept_bytes: Num) -> Num:
    r"""Bytes of a rank under ZeRO-2. [byte]

    .. math:: 2\psi + \frac{k\psi}{n}

    Parameters
    ----------
    params : Num
        Weights :math:`\psi` of the model. [element]
    ranks : Num
        Ranks :math:`n` of the job. [-]
    kept_bytes : Num
        What they share of each weight, :math:`k`: 18, or 0 where the optimizer runs on the host. [byte]

    References
    ----------
    .. [1] DeepSpeed edaa7221, ``deepspeed/runtime/zero/stage_1_and_2.py``,
       ``estimate_zero2_model_states_mem_needs``; the table of its documentation was printed with
       :math:`4\psi + 16\psi/n`.

    Examples
    --------
    >>> estimated_zero2_bytes(2851e6, 8, 0.0)
    5702000000.0
    """
    return 2.0 * params + kept_bytes * params / ranks


def estimated_zero3_bytes(params: Num, largest_layer: Num, ranks: Num, kept_bytes: Num) -> Num:
    r"""Bytes of a rank under ZeRO-3. [byte]

    .. math:: 4\psi_{max} + \frac{k\psi}{n}

    Parameters
    ----------
    params, largest_layer : Num
        Weights :math:`\psi` of the model, and of its largest layer. [element]
    ranks : Num
        Ranks :math:`n` of the job. [-]
    kept_bytes : Num
        What they share of each weight, :math:`k`: 18, 2 where the optimizer runs on the host, 0 where weights
        rest there too. [byte]

    References
    ----------
    .. [1] DeepSpeed edaa7221, ``deepspeed/runtime/zero/stage3.py``,
       ``estimate_zero3_model_states_mem_needs``.

    Examples
    --------
    >>> estimated_zero3_bytes(2851e6, 32e6, 8, 0.0)
    128000000.0
    """
    return 4.0 * largest_layer + kept_bytes * params / ranks


def estimated_host_bytes(
    params: Num, nodes: Num, ranks_per_host: Num, kept_bytes: Num, built_bytes: Num
) -> Num:
    r"""Bytes in the memory of a node. [byte]

    .. math:: 1.5\,\psi\,\max\left(b\,g,\; \frac{k}{N}\right)

    Parameters
    ----------
    params : Num
        Weights :math:`\psi`: of the model, or of its largest layer where it is built in shards and nothing
        stays on the host. [element]
    nodes, ranks_per_host : Num
        Nodes :math:`N` and ranks :math:`g` of each. [-]
    kept_bytes : Num
        What the host keeps of each weight, :math:`k`: 0, 16, or 18 with the weight itself. [byte]
    built_bytes : Num
        What each rank has of each weight as the model is built, :math:`b`: 4, or 0 in shards. [byte]

    References
    ----------
    .. [1] DeepSpeed edaa7221, ``deepspeed/runtime/zero/stage3.py``,
       ``estimate_zero3_model_states_mem_needs``.

    Examples
    --------
    >>> float(estimated_host_bytes(2851e6, 1, 8, 18.0, 0.0))
    76977000000.0
    """
    return HOST_FACTOR * params * maximum(built_bytes * ranks_per_host, kept_bytes / nodes)
