"""Inputs of recomputed layers in host memory: what stays on the device, and what of the copies is exposed.

DeepSpeed keeps the newest input on the device and copies the one before beside the next layer's forward; in
backward each is fetched when its layer begins, and waited for.
"""

from __future__ import annotations

import numpy as np

from planner.numeric import Num

DEVICE_CHECKPOINTS = 2.0
"""Inputs of layers that are on the device at once: the newest, and the one on its way. [-]

References
----------
.. [1] DeepSpeed edaa7221, ``deepspeed/runtime/activation_checkpointing/offload_activations.py``,
   ``keep_last_count`` of 1; the stash of those on their way begins anew with every layer.
"""


def hosted_checkpoints(layers: Num) -> Num:
    r"""Layers whose inputs are on the host before backward begins: all but those that stay. [-]

    .. math:: n = \max(L - 2, 0)

    Parameters
    ----------
    layers : Num
        Recomputed layers :math:`L` of the stage. [-]

    References
    ----------
    .. [1] DeepSpeed edaa7221, ``deepspeed/runtime/activation_checkpointing/offload_activations.py``.

    Examples
    --------
    >>> float(hosted_checkpoints(32.0)), float(hosted_checkpoints(1.0))
    (30.0, 0.0)
    """
    return np.maximum(layers - DEVICE_CHECKPOINTS, 0.0)


def fetched_seconds(transfer: Num, window: Num, layers: Num) -> Num:
    r"""Seconds by which copies of inputs down and up make both passes of a micro-batch longer. [s]

    .. math:: t = \max(0,\; n c - (L - 1)\,w) + n c

    Parameters
    ----------
    transfer : Num
        Time :math:`c` to copy the input of one layer. [s]
    window : Num
        Time :math:`w` of a layer's forward, which hides copies down. [s]
    layers : Num
        Recomputed layers :math:`L`, of which :math:`n` have their inputs on the host. [-]

    References
    ----------
    .. [1] DeepSpeed edaa7221, ``deepspeed/runtime/activation_checkpointing/offload_activations.py``,
       ``_start_offload`` (a stream of its own) and ``_restore_tensor`` (the compute waits for each).

    Examples
    --------
    >>> float(fetched_seconds(0.5, 1.0, 32.0)), float(fetched_seconds(2.0, 1.0, 32.0))
    (15.0, 89.0)
    """
    moved = hosted_checkpoints(layers)
    return np.maximum(moved * transfer - (layers - 1.0) * window, 0.0) + moved * transfer
