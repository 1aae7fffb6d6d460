"""Files that fits wrote: judged here as a user's are, since no start judges them again."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.inputs.shipped import data_folder
from planner.inputs.yaml_file import read_fitted, read_yaml


@pytest.mark.parametrize(
    "path", sorted((data_folder("hardware_profiles") / "fitted").glob("*.yaml")), ids=lambda path: path.stem
)
def test_a_fitted_file_has_no_fault_and_says_the_same(path: Path) -> None:
    assert read_fitted(path) == read_yaml(path)
