"""Saved tensors of some layers on the host: how much leaves the device, and what of the copies is exposed.

Transformer Engine copies a layer's tensors on a stream of its own, one layer after the other: the first N of
L layers, each from when its forward has ended, and the device waits for the copy of layer i before forward of
layer L - N + i. Backward is the mirror image. So at no moment are more than L - N layers' tensors there, the
layer that runs and those on their way included, and no buffer is needed besides.
"""

from __future__ import annotations

import numpy as np

from planner.numeric import Num


def offloaded_layers(layers: Num, offloaded: Num) -> Num:
    r"""Layers whose saved tensors go to the host: as asked, while the layer that runs stays. [-]

    .. math:: n = \min(N, L - 1)

    Parameters
    ----------
    layers : Num
        Layers :math:`L` of the stage. [-]
    offloaded : Num
        Layers :math:`N` to be offloaded. [-]

    References
    ----------
    .. [1] NVIDIA, Megatron-LM d98e8a64, ``megatron/core/transformer/transformer_config.py``: fewer than all.

    Examples
    --------
    >>> float(offloaded_layers(80.0, 40.0)), float(offloaded_layers(4.0, 9.0))
    (40.0, 3.0)
    """
    return np.minimum(offloaded, np.maximum(layers - 1.0, 0.0))


def copied_bytes(nbytes: Num, layers: Num, offloaded: Num) -> Num:
    r"""Bytes that go to the host in the forward of one micro-batch, and come back in its backward. [byte]

    .. math:: s = \frac{n}{L}\,S

    Parameters
    ----------
    nbytes : Num
        What all layers of the stage save for backward, :math:`S`. [byte]
    layers : Num
        Layers :math:`L` of the stage. [-]
    offloaded : Num
        Layers to be offloaded, of which :math:`n` are. [-]

    Notes
    -----
    Unlike layers count as their mean.

    References
    ----------
    .. [1] NVIDIA, Transformer Engine d0067d0d, ``transformer_engine/pytorch/cpu_offload.py``:
       whatever a layer saves but parameters and tensors of fewer than 2^18 elements.

    Examples
    --------
    >>> float(copied_bytes(240e9, 80.0, 20.0))
    60000000000.0
    """
    return nbytes * (offloaded_layers(layers, offloaded) / np.maximum(layers, 1.0))


def device_bytes(nbytes: Num, layers: Num, offloaded: Num) -> Num:
    r"""Bytes of saved tensors that are on the device at the same time.

    .. math:: S - s = \frac{L - n}{L}\,S

    Parameters
    ----------
    nbytes : Num
        What all layers of the stage save for backward, :math:`S`. [byte]
    layers : Num
        Layers :math:`L` of the stage. [-]
    offloaded : Num
        Layers to be offloaded, of which :math:`n` are. [-]

    Returns
    -------
    Num
        Bytes at the peak; the tensors on their way are among them. [byte]

    References
    ----------
    .. [1] NVIDIA, Transformer Engine d0067d0d, ``transformer_engine/pytorch/cpu_offload.py``, class
       ``DefaultOffloadSynchronizer``: (layers - offloaded layers) times the footprint of a layer.

    Examples
    --------
    >>> float(device_bytes(240e9, 80.0, 20.0))
    180000000000.0
    """
    return nbytes - copied_bytes(nbytes, layers, offloaded)


def copy_exposed_seconds(transfer: Num, window: Num, layers: Num, offloaded: Num) -> Num:
    r"""Seconds by which the copies of one direction make the pass of a micro-batch longer. [s]

    .. math:: t = \begin{cases}\max(0,\; n c - (L-2)\,w) & L - n \ge 2\\ n c & L - n = 1\end{cases}

    Parameters
    ----------
    transfer : Num
        Time :math:`c` to copy what one layer saves. [s]
    window : Num
        Time :math:`w` of the pass in one layer, which hides copies: forward of those to the host, backward of
        those back. [s]
    layers : Num
        Layers :math:`L` of the stage. [-]
    offloaded : Num
        Layers to be offloaded, of which :math:`n` are. [-]

    Notes
    -----
    Layers are alike. Copies run behind all layers but the first, which has nothing to copy yet, and the last,
    which waits for the last copy; where one layer's tensors stay, every copy is waited for.

    References
    ----------
    .. [1] NVIDIA, Transformer Engine d0067d0d, ``transformer_engine/pytorch/cpu_offload.py``, class
       ``DefaultOffloadSynchronizer``: when copies start and who waits for them.

    Examples
    --------
    >>> float(copy_exposed_seconds(1.5, 1.0, 10.0, 4.0)), float(copy_exposed_seconds(1.5, 1.0, 10.0, 8.0))
    (0.0, 4.0)
    """
    moved = offloaded_layers(layers, offloaded)
    behind = np.maximum(moved * transfer - (layers - 2.0) * window, 0.0)
    return np.where(layers - moved >= 2.0, behind, moved * transfer)


def free_window(window: Num, carried: Num) -> Num:
    r"""Time of a pass in one layer that its link has for copies beside messages of the same direction. [s]

    .. math:: w' = \max(0,\; w - m)

    Parameters
    ----------
    window : Num
        Time :math:`w` of the pass in one layer. [s]
    carried : Num
        Time :math:`m` for which the link carries messages of the layer. [s]

    References
    ----------
    .. [1] NVIDIA, Megatron-Bridge 067f987d, ``docs/performance-guide.md``, "Activation offloading to host
       memory": settings "to avoid resource conflict between CPU memory offloading and network communication".

    Examples
    --------
    >>> [float(free_window(1.0, carried)) for carried in (0.25, 3.0)]
    [0.75, 0.0]
    """
    return np.maximum(window - carried, 0.0)


def input_copy_exposed_seconds(transfer: Num, window: Num, layers: Num, offloaded: Num) -> Num:
    r"""Seconds by which copies of modules' inputs, one direction, make the pass of a micro-batch longer. [s]

    .. math:: t = n\,\max(0,\; c - w)

    Parameters
    ----------
    transfer : Num
        Time :math:`c` to copy what goes of one layer. [s]
    window : Num
        Time :math:`w` of the pass in one layer. [s]
    layers, offloaded : Num
        Layers of the stage, and those to be offloaded, of which :math:`n` are. [-]

    Notes
    -----
    Each group comes back while the one after it runs backward, so that copies hide behind a layer each.

    References
    ----------
    .. [1] NVIDIA, Megatron-LM d98e8a64, ``megatron/core/pipeline_parallel/``
       ``fine_grained_activation_offload.py``, ``bulk_reload``: the next group is loaded where backward of one
       starts; the last of each name stays.

    Examples
    --------
    >>> [float(input_copy_exposed_seconds(each, 1.0, 10.0, 9.0)) for each in (1.5, 0.5)]
    [4.5, 0.0]
    """
    return offloaded_layers(layers, offloaded) * np.maximum(transfer - window, 0.0)
