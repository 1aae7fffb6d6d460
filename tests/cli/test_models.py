"""``planner models`` as a user types it."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from planner.cli.models import app
from planner.errors import InputError
from planner.inputs.load import load_model, model_names
from tests.helpers import ROOT

CONFIG = {
    "model_type": "mixtral",
    "num_hidden_layers": 2,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 100,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
}

PAGE = """# Models that ship with the planner

Written by `make golden` from the files in `models_zoo/`. `planner models show NAME` shows one in full: its
layers, where its parameters are, its source, and what its authors say of its size. Other spellings of a name,
a model's name on Hugging Face among them, are in the same files.

`active_params` are those that one token uses, embedding and head included. Extra prediction layers and the
vision and audio parts of a model are not counted. `mha`, `gqa` and `mqa` tell how many key/value heads there
are (as many as heads, fewer, one); `mla` is latent attention; `sliding` and `chunked` say that some layers
see a window.

"""


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def refusal(*arguments: str) -> str:
    result = run(*arguments)
    assert isinstance(result.exception, InputError)
    return str(result.exception)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIG))
    return path


def test_the_list_has_every_model_in_every_format() -> None:
    rows = json.loads(run("list", "--format", "json").stdout)
    assert [row["name"] for row in rows] == model_names()
    [mixtral] = [row for row in rows if row["name"] == "mixtral-8x7b"]
    assert mixtral == {
        "name": "mixtral-8x7b",
        "params": 46_702_792_704,
        "active_params": 12_879_925_248,
        "layers": 32,
        "hidden": 4096,
        "kind": "gqa moe",
    }
    assert len(list(csv.DictReader(io.StringIO(run("list", "--format", "csv").stdout)))) == len(rows)
    assert all(len(line) <= 80 for line in run("list").stdout.splitlines())


def test_the_reference_page_is_the_list(golden: Callable[[Path, str], None]) -> None:
    golden(ROOT / "docs" / "reference" / "models.md", PAGE + run("list", "--format", "markdown").stdout)


def test_one_model_in_full() -> None:
    facts = json.loads(run("show", "glm-4.5", "--format", "json").stdout)
    assert facts["schema"] == "planner/model/1"
    parts = {row["part"]: row["params"] for row in facts["parts"]}
    assert sum(parts.values()) == facts["params"] + facts["prediction_params"]
    assert parts["extra prediction layers"] == facts["prediction_params"]
    assert [(row["block"], row["layers"]) for row in facts["runs"]] == [("dense", 3), ("moe", 89)]
    text = run("show", "glm-4.5").stdout
    assert "352,797,814,784" in text
    assert "routed experts" in text


def test_an_import_is_printed_or_written_and_read_back(config: Path, tmp_path: Path) -> None:
    printed = run("import", str(config), "--name", "mine")
    out = tmp_path / "mine.yaml"
    written = run("import", str(config), "--name", "mine", "--out", str(out))
    assert printed.exit_code == written.exit_code == 0
    assert printed.stdout == out.read_text()
    assert "note: head_dim is absent" in printed.stderr
    assert load_model(str(out)).name == "mine"
    assert f"{load_model(str(out)).params:,} parameters" in written.stderr


def test_an_encoder_is_told_with_the_way_to_leave_it_out(config: Path, tmp_path: Path) -> None:
    whole = {"model_type": "mistral3", "text_config": json.loads(config.read_text()), "vision_config": {}}
    path = tmp_path / "whole.json"
    path.write_text(json.dumps(whole))
    told = "is a part of the model: --text-only takes the language model alone"
    found, alone = run("import", str(path)), run("import", str(path), "--text-only")
    assert found.exit_code == alone.exit_code == 0
    assert told in found.stderr
    assert told not in alone.stderr
    assert "encoder:" in found.stdout
    assert "encoder:" not in alone.stdout


def test_a_name_of_the_hub_is_read_from_the_local_cache_or_told_where_its_config_is(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    told = refusal("import", "somebody/own-7b")
    assert "download https://huggingface.co/somebody/own-7b/resolve/main/config.json" in told
    snapshot = tmp_path / "models--somebody--own-7b" / "snapshots" / "1"
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text(config.read_text())
    assert run("import", "somebody/own-7b").exit_code == 0


def test_a_file_is_not_overwritten_unless_asked(config: Path, tmp_path: Path) -> None:
    out = tmp_path / "mine.yaml"
    out.write_text("mine\n")
    assert "--force" in refusal("import", str(config), "--out", str(out))
    assert out.read_text() == "mine\n"
    assert run("import", str(config), "--out", str(out), "--force").exit_code == 0
    assert out.read_text() != "mine\n"


def test_a_folder_that_cannot_be_written_is_said_and_left_as_it_is(config: Path, tmp_path: Path) -> None:
    assert "a place that can be written" in refusal(
        "import", str(config), "--out", str(tmp_path / "no" / "m.yaml")
    )
    (tmp_path / "folder").mkdir()
    assert "--out" in refusal("import", str(config), "--out", str(tmp_path / "folder"), "--force")
    assert {path.name for path in tmp_path.iterdir()} == {"config.json", "folder"}


def test_an_interrupt_while_writing_leaves_nothing(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", interrupt)
    run("import", str(config), "--out", str(tmp_path / "m.yaml"))
    assert {path.name for path in tmp_path.iterdir()} == {"config.json"}


def test_what_cannot_be_imported_leaves_no_file(config: Path, tmp_path: Path) -> None:
    config.write_text(json.dumps(CONFIG | {"index_topk": 2048}))
    assert "an indexer" in refusal("import", str(config), "--out", str(tmp_path / "m.yaml"))
    assert not (tmp_path / "m.yaml").exists()
