"""Kernels that a host launches one by one, and a device that runs them in order."""

from __future__ import annotations

import numpy as np

from planner.numeric import Num


def launched_seconds(device: Num, host: Num, exposed_share: Num) -> Num:
    r"""Seconds of kernels that a host launches while the device runs those launched before.

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

    Returns
    -------
    Num
        Elapsed time. [s]

    References
    ----------
    .. [1] NVIDIA, "CUDA C++ Programming Guide," section on asynchronous concurrent execution: launches
       return before their kernels end, unless ``CUDA_LAUNCH_BLOCKING`` is 1.

    Examples
    --------
    >>> launched_seconds(3.0, 2.0, 0.0), launched_seconds(3.0, 2.0, 1.0)
    (np.float64(3.0), np.float64(5.0))
    """
    return np.maximum(device, host) + exposed_share * np.minimum(device, host)
