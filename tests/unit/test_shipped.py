"""Names of what ships: found by their file where they have one, and never a crash."""

from __future__ import annotations

from planner.inputs.shipped import data_folder, named_file, names_and_aliases
from tests.cases import every


@every("folder", ["models_zoo", "hardware_profiles", "hardware_profiles/accelerators"])
def test_a_name_means_what_the_index_says(folder: str) -> None:
    root = data_folder(folder.split("/")[0])
    place = root.joinpath(*folder.split("/")[1:])
    for name, path in names_and_aliases(place).items():
        assert named_file(f" {name.upper()} ", place) == path


@every("text", ["", "a" * 300, "é" * 200, "\0", "../llama2-7b", "models_zoo/llama2-7b", "."])
def test_what_is_no_name_is_none(text: str) -> None:
    assert named_file(text, data_folder("models_zoo")) is None
