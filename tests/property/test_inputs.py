"""Whatever stands in a file: a record, or an input error that names a place. Never another exception."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.errors import InputError, Problem
from planner.inputs.build import build
from planner.inputs.hf_config import model_from_config, read_hf_config
from planner.inputs.layers import layers_text, parse_layers
from planner.inputs.load import load_model
from planner.inputs.model import ModelSpec
from planner.inputs.model_yaml import model_yaml
from planner.inputs.shipped import data_folder
from planner.inputs.yaml_file import parse_yaml
from tests.texts import LETTERS

ZOO = [
    path.read_text()
    for name in ("deepseek-v3", "gemma3-27b", "gpt3-175b")
    for path in [data_folder("models_zoo") / f"{name}.yaml"]
]
TEXT = Path(__file__).parents[1] / "unit" / "data" / "hf_small_configs.json"
CONFIGS = [case["config"] for case in json.loads(TEXT.read_text())["cases"]]

ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(min_value=10**30, max_value=10**60),
    st.floats(),
    st.text(LETTERS, max_size=8),
    st.sampled_from(
        ["dense", "32", "3 dense", "1e9", "full_attention", "llama", "moe", "10000 x (10000 dense)"]
    ),
    st.lists(st.one_of(st.integers(), st.text(LETTERS, max_size=3), st.booleans()), max_size=4),
    st.dictionaries(st.text(LETTERS, max_size=4), st.integers(), max_size=3),
)


def paths(value: Any) -> list[tuple[Any, ...]]:
    """Return the way to every value inside a mapping."""
    found: list[tuple[Any, ...]] = []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        found += [(key,), *((key, *rest) for rest in paths(inner))]
    return found


@st.composite
def mutated(draw: st.DrawFn, originals: list[dict[str, Any]]) -> dict[str, Any]:
    """Draw a mapping with up to three values replaced, removed or added."""
    raw = copy.deepcopy(draw(st.sampled_from(originals)))
    for _ in range(draw(st.integers(min_value=1, max_value=3))):
        *way, last = draw(st.sampled_from(paths(raw)))
        parent = raw
        for key in way:
            parent = parent[key]
        action = draw(st.sampled_from(["replace", "remove", "add"]))
        if action == "replace":
            parent[last] = draw(ODD)
        elif action == "remove":
            del parent[last]
        elif isinstance(parent, dict):
            parent[draw(st.one_of(st.text(LETTERS, max_size=6), st.integers(), st.booleans()))] = draw(ODD)
        if not raw:
            break
    return raw


def sound_or_refused(make: Any) -> None:
    refused: tuple[Problem, ...] | None = None
    try:
        model = make()
    except InputError as error:
        refused = error.problems
    if refused is None:
        assert 0 < model.active_params <= model.params
    else:
        assert refused
        assert all(problem.where and problem.expected for problem in refused)


@settings(max_examples=300)
@given(mutated([yaml.safe_load(text) for text in ZOO]))
def test_a_mutated_model_is_sound_or_refused(raw: dict[str, Any]) -> None:
    sound_or_refused(lambda: build(ModelSpec, raw, "model.yaml"))


@settings(max_examples=400)
@given(mutated(CONFIGS))
def test_a_mutated_config_is_sound_or_refused(raw: dict[str, Any]) -> None:
    sound_or_refused(lambda: model_from_config(raw, "config.json", "m").model)


@settings(max_examples=300)
@given(st.sampled_from(ZOO), st.data())
def test_broken_yaml_text_is_sound_or_refused(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 40)))
    junk = data.draw(
        st.one_of(
            st.text(LETTERS, max_size=12),
            st.sampled_from(
                [
                    "\t",
                    "&a ",
                    "*a",
                    "{",
                    "}",
                    "[",
                    "]",
                    ": ",
                    "- ",
                    "!!set ",
                    "---\n",
                    "'",
                    '"',
                    "|",
                    ">",
                    "%",
                    "@",
                    "\x00",
                    "\ud7ff",
                ]
            ),
        )
    )
    sound_or_refused(
        lambda: build(ModelSpec, parse_yaml(text[:start] + junk + text[end:], "model.yaml"), "model.yaml")
    )


@settings(max_examples=200)
@given(st.binary(max_size=60))
def test_any_bytes_as_a_file_are_refused(tmp_path_factory: pytest.TempPathFactory, raw: bytes) -> None:
    folder = tmp_path_factory.mktemp("inputs")
    for name in ("config.json", "model.yaml"):
        path = folder / name
        path.write_bytes(raw)
        with pytest.raises(InputError):
            load_model(str(path))


@settings(max_examples=100)
@given(st.sampled_from(CONFIGS), st.integers(0, 400), st.text(LETTERS, max_size=6))
def test_broken_json_text_is_sound_or_refused(
    tmp_path_factory: pytest.TempPathFactory, raw: dict[str, Any], place: int, junk: str
) -> None:
    path = tmp_path_factory.mktemp("inputs") / "config.json"
    text = json.dumps(raw)
    path.write_text(text[:place] + junk + text[place + 1 :], encoding="utf-8")
    sound_or_refused(lambda: read_hf_config(path).model)


@settings(max_examples=200)
@given(st.text(alphabet="0123456789 ,()xab-", max_size=30))
def test_any_order_of_layers_is_read_or_refused(text: str) -> None:
    try:
        layers = parse_layers(text)
    except ValueError:
        return
    assert parse_layers(layers_text(layers)) == layers


@given(st.lists(st.sampled_from(["a", "b", "c-1"]), min_size=1, max_size=40))
def test_every_order_of_layers_can_be_written(layers: list[str]) -> None:
    assert parse_layers(layers_text(layers)) == tuple(layers)


@settings(max_examples=100)
@given(st.sampled_from(CONFIGS), st.text(LETTERS, min_size=1, max_size=20), st.text(LETTERS, max_size=150))
def test_what_is_imported_can_be_written_and_read(raw: dict[str, Any], name: str, note: str) -> None:
    model = model_from_config(raw, "config.json", name).model.model_copy(
        update={"note": " ".join(note.split())}
    )
    assert build(ModelSpec, parse_yaml(model_yaml(model), "m.yaml"), "m.yaml") == model
