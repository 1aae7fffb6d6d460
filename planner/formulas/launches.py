"""Kernels that a host launches one by one, and a device that runs them in order."""

from __future__ import annotations

from planner.numeric import Num, maximum, minimum, sqrt


def launched_seconds(device: Num, host: Num, exposed_share: Num) -> Num:
    r"""Seconds of kernels that a host launches while the device runs those launched before. [s]

    .. math:: t = \max(t_d, t_h) + x \min(t_d, t_h)

    Parameters
    ----------
    device : Num
        Time :math:`t_d` of the kernels on the device. [s]
    host : Num
        Time :math:`t_h` of the host to launch them. [s]
    exposed_share : Num
        Share :math:`x` of the shorter that the longer does not hide: 0 where the host runs ahead freely, 1
        where it waits for each kernel. [-]

    References
    ----------
    .. [1] NVIDIA, "CUDA C++ Programming Guide," section on asynchronous concurrent execution: launches
       return before their kernels end, unless ``CUDA_LAUNCH_BLOCKING`` is 1.

    Examples
    --------
    >>> launched_seconds(3.0, 2.0, 0.0), launched_seconds(3.0, 2.0, 1.0)
    (3.0, 5.0)
    """
    return maximum(device, host) + exposed_share * minimum(device, host)


def floored_seconds(device: Num, floor: Num) -> Num:
    r"""Seconds of a layer that is never faster than a floor, and near it a little slower than either.

    .. math:: t = \left(t_d^{16} + t_0^{16}\right)^{1/16}

    Parameters
    ----------
    device : Num
        Time :math:`t_d` of the layer on the device. [s]
    floor : Num
        Time :math:`t_0` below which it does not go. [s]

    Returns
    -------
    Num
        Elapsed time: where both are alike 4% above them, else soon that of the longer. [s]

    Notes
    -----
    Layers vary around their mean, some bound by the device and some by the host, which rounds the corner of
    a plain maximum. The exponent is a power of two, so that roots round alike for one plan and for many.

    Examples
    --------
    >>> round(floored_seconds(3.0, 2.0), 4), floored_seconds(0.0, 2.0)
    (3.0003, 2.0)
    """
    longer, shorter = maximum(device, floor), minimum(device, floor)
    share: Num = shorter / longer
    for _ in range(4):
        share = share * share
    return longer * sqrt(sqrt(sqrt(sqrt(1.0 + share))))
