"""How far kernel curves are off on an accelerator that borrows them."""

from __future__ import annotations

from typing import Final

import numpy as np

from planner.calibrate.fit import Column
from planner.calibrate.sites.fit import COVERED
from planner.formulas.attention import attention_forward_seconds, visible_keys
from planner.formulas.gemm import gemm_seconds
from planner.formulas.kernels import Kernels
from planner.inputs.kernels import GENERIC, RELATIVES, load_kernels
from planner.inputs.load_hardware import load_accelerator
from planner.inputs.shipped import data_folder
from tests.lab.bands import rounded


def lent_errors() -> dict[str, object]:
    """Return how far kernel curves are off on an accelerator that borrows them, over those with their own.

    Each accelerator with curves of its own is priced with those of the relative that it would borrow from,
    and with the generic ones, over products and attention of training.
    """
    errors, pairs = [], 0
    for name in sorted(path.stem for path in (data_folder("hardware_profiles") / "curves").glob("*.yaml")):
        part = load_accelerator(name)
        own = load_kernels(part)
        for lender in sorted({RELATIVES.get(part.arch, GENERIC), GENERIC} - {name}):
            lent = load_kernels(part.model_copy(update={"curves": lender}))
            errors.append(np.abs(_times(lent) / _times(own) - 1))
            pairs += 1
    return {
        "pairs": pairs,
        "mean_error": rounded(float(np.mean(errors))),
        "p90_error": rounded(float(np.quantile(errors, COVERED))),
    }


SIZES: Final = np.array([1024.0, 2048.0, 4096.0, 8192.0, 16384.0])
"""Rows, columns, inner dimensions and sequences of a training step: 1,024 to 16,384. [element]"""


def _times(kernels: Kernels) -> Column:
    """Seconds of 16-bit products and of causal attention over a grid of usual sizes. [s]"""
    rows, outputs, inputs = np.meshgrid(SIZES, SIZES, SIZES)
    products = gemm_seconds(rows, outputs, inputs, kernels.gemm["bf16"])
    visible = visible_keys(SIZES, SIZES, SIZES)
    curve = kernels.attention_for(128)
    attention = attention_forward_seconds(1.0, 32.0, SIZES, visible, 128.0, curve)
    return np.concatenate([np.ravel(products), np.ravel(attention)])
