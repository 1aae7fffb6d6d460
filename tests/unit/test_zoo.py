"""The zoo: every name is found, and parameters equal those that authors print and other code counts."""

from __future__ import annotations

import csv
import json
import re

import pytest

from planner.errors import InputError
from planner.inputs.load import load_model, model_names
from planner.inputs.model import ModelSpec
from planner.inputs.model_yaml import model_yaml
from planner.inputs.shipped import data_folder, names_and_aliases
from tests.cases import every
from tests.helpers import ROOT
from tests.unit.published_counts import published_params

DATA = ROOT / "tests" / "unit" / "data"
NAMES = model_names()
COUNTED: dict[str, int] = json.loads((DATA / "hf_zoo_params.json").read_text())["params"]
with (DATA / "derived_params.csv").open() as stream:
    DERIVED = list(csv.DictReader(line for line in stream if not line.startswith("#")))

REQUIRED = [
    "llama3-8b", "llama3-70b", "llama3.1-405b", "llama2-7b", "llama2-13b", "llama2-70b", "gpt3-175b",
    "qwen2.5-7b", "qwen3-8b", "qwen3-32b", "qwen3-30b-a3b", "qwen3-235b-a22b", "mixtral-8x7b",
    "mixtral-8x22b", "deepseek-v2", "deepseek-v3", "gpt-oss-120b", "gemma3-27b",
]  # fmt: skip

_SCALES = {"": 1.0, "K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}


def printed(text: str) -> tuple[float, float]:
    """Return a printed count and the size of its last digit.

    >>> printed("37B"), printed("26,047M")
    ((37000000000.0, 1000000000.0), (26047000000.0, 1000000.0))
    """
    match = re.fullmatch(r"([\d,]+)(?:\.(\d+))?([KMBT]?)", text)
    assert match
    scale, digits = _SCALES[match[3]], match[2] or ""
    return float(f"{match[1].replace(',', '')}.{digits or 0}") * scale, scale * 10.0 ** -len(digits)


def test_the_names_that_scripts_rely_on_are_there() -> None:
    assert set(REQUIRED) <= set(NAMES)


@every("name", NAMES)
def test_a_file_is_named_cited_and_written_plainly(name: str) -> None:
    model = load_model(name)
    text = (data_folder("models_zoo") / f"{name}.yaml").read_text()
    assert model.name == name
    assert re.search(r"https?://", model.source)
    assert model.published.source.startswith("https://")
    assert model.published.params or model.published.active_params
    assert model_yaml(model) == text


@every("name", NAMES)
def test_parameters_are_those_that_the_authors_print(name: str) -> None:
    model = load_model(name)
    said = model.published
    for active, text in ((False, said.params), (True, said.active_params)):
        if text:
            count, last_digit = printed(text)
            assert published_params(model, active) == pytest.approx(count, abs=last_digit)


@every("name", NAMES)
def test_parameters_equal_those_that_the_modelling_code_makes(name: str) -> None:
    assert load_model(name).params == COUNTED[name]


@every("row", DERIVED, ids=lambda row: row["name"])
def test_matrices_alone_are_those_of_the_derived_table(row: dict[str, str]) -> None:
    """The table leaves norms, biases and sinks out, and prints 0.01 of its unit."""
    model = matrices_alone(load_model(row["name"]))
    assert model.params / 1e9 == pytest.approx(float(row["params_b"]), abs=0.0051)
    assert model.active_params / 1e9 == pytest.approx(float(row["active_params_b"]), abs=0.0051)


def matrices_alone(model: ModelSpec) -> ModelSpec:
    raw = model.model_dump()
    raw |= {"learned_positions": False, "final_norm": False, "norm_bias": False}
    off = {"qkv_bias", "output_bias", "sinks", "bias", "router_bias", "shared_gate"}
    for block in raw["blocks"].values():
        block["norms"] = 0
        for part in (block["mixer"], block["ffn"]):
            part |= {key: False for key in off & set(part)}
        if "qk_norm" in block["mixer"]:
            block["mixer"]["qk_norm"] = "none"
    return ModelSpec.model_validate(raw)


def test_active_parameters_by_hand() -> None:
    """Mixtral 8x7B: embedding and head; in a layer attention, two experts, a router and two norms."""
    layer = 2 * 4096 * 4096 + 2 * 4096 * 1024 + 2 * 3 * 4096 * 14336 + 8 * 4096 + 2 * 4096
    assert load_model("mixtral-8x7b").active_params == 2 * 32000 * 4096 + 32 * layer + 4096


def test_extra_prediction_layers_are_those_of_the_paper() -> None:
    """DeepSeek-V3's repository: 671B of the main model and 14B of the prediction module.

    The 14B have an embedding and a head of their own in the files, 0.93B each, which training shares.
    """
    model = load_model("deepseek-v3")
    files = model.prediction_params + 2 * model.vocab * model.hidden
    assert files == pytest.approx(14e9, abs=1e9)
    assert load_model("mimo-7b").params + load_model("mimo-7b").prediction_params == pytest.approx(
        7.83e9, abs=5e6
    )


def test_names_and_aliases_are_found_whatever_their_case() -> None:
    assert load_model("LLaMA3-70B") is not None
    assert load_model("meta-llama/llama-3.1-8b").name == "llama3.1-8b"


def test_no_alias_means_two_models_and_the_scan_sees_what_the_files_hold() -> None:
    models = [load_model(name) for name in NAMES]
    words = [word.lower() for model in models for word in {model.name, *model.aliases}]
    assert len(words) == len(set(words))
    assert set(names_and_aliases(data_folder("models_zoo"))) == set(words)


def test_an_unknown_name_is_answered_with_near_ones() -> None:
    with pytest.raises(InputError, match=r"nearest: .*llama3-70b"):
        load_model("llma3-70b")


@every("text", ["", " ", "x" * 5000, "\0", "~nobody-here/x", "/dev/zero", "."])
def test_any_text_as_a_name_is_an_input_error(text: str) -> None:
    with pytest.raises(InputError):
        load_model(text)
