"""Texts that users have of their machines: what nccl-tests, nvidia-smi and ibstat print."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

from planner.errors import InputError, Problem
from planner.inputs.import_logs.ibstat import Adapter, read_ibstat
from planner.inputs.import_logs.nccl_tests import NcclTest, read_nccl_tests
from planner.inputs.import_logs.smi import Smi, read_smi
from planner.inputs.import_logs.topology import Topology, read_topology
from planner.inputs.yaml_file import read_text

Log = Smi | Topology | tuple[Adapter, ...] | tuple[NcclTest, ...]

_SIGNS: Final[tuple[tuple[str, Callable[[str, str], Log]], ...]] = (
    (r"NVSMI LOG|^\s*Product Name\s+:", read_smi),
    (r"^\s*(\x1b\[4m)?GPU0\s+(GPU1|NIC0|mlx5_0|CPU)", read_topology),
    (r"^CA '", read_ibstat),
    (r"algbw\s+busbw|Collective test", read_nccl_tests),
)
"""What a text of each kind has that no other has."""


def read_log(path: Path) -> Log:
    """Return what a text holds, whichever of the known programs printed it.

    Raises
    ------
    InputError
        If it cannot be read, or no known program printed it.
    """
    text = read_text(path)
    for sign, reader in _SIGNS:
        if re.search(sign, text, re.MULTILINE):
            return reader(text, str(path))
    expected = "output of nccl-tests, nvidia-smi topo -m, nvidia-smi -q or ibstat"
    raise InputError(Problem(str(path), "none of these", expected))
