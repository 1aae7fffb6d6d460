"""The number type that every formula takes: one plan or ten million."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Column = NDArray[np.float64]
"""An array of float64, one entry for each plan."""

Num = float | Column
"""A float or a float64 array of any broadcastable shape."""
