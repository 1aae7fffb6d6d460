"""Files that fits wrote: judged here as a user's are, since no start judges them again."""

from __future__ import annotations

from pathlib import Path

from planner.inputs import yaml_file
from planner.inputs.shipped import data_folder
from planner.inputs.yaml_file import read_fitted, read_yaml
from tests.cases import every

PATHS = [
    path
    for folder in ("fitted", "curves")
    for path in sorted((data_folder("hardware_profiles") / folder).glob("*.yaml"))
]


@every("path", PATHS, ids=lambda path: path.stem)
def test_a_fitted_file_has_no_fault_and_says_the_same(path: Path) -> None:
    trusted = read_fitted(path)
    yaml_file._READ.clear()  # so that it is judged
    assert trusted == read_yaml(path)
