"""Plan files: written, read back the same, and faults told with their place."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from planner.errors import InputError
from planner.report.plan_file import read_plan_file
from tests.cli.command import planner

JOB = ("llama2-7b", "--hardware", "dgx-h100", "--gpus", "8", "--global-batch", "64")


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "plan.yaml"
    options = ("--pp", "2", "--stage-layers", "15,17", "--recompute", "full:3", "--set", "attention=flash-2")
    rest = ("--gpus-per-node", "4", "--memory-limit", "70", "--tokens", "1.5T", "--state-dtype", "bf16")
    assert planner("estimate", *JOB, *options, *rest, "--save", str(path)).code in (0, 1)
    return path


def test_what_is_saved_is_read_back(saved: Path) -> None:
    found = read_plan_file(saved)
    assert found.changed == ()
    assert (found.plan.pp, found.plan.dp, found.plan.stage_layers) == (2.0, 4.0, (15, 17))
    assert (found.plan.recompute, found.plan.num_microbatches) == ("full:3", 16.0)
    assert found.runtime.traits.attention.kernel == "flash-2"
    assert found.job.hardware.pool.gpus_per_node == 4
    assert found.job.workload.tokens == 1.5e12
    assert found.job.workload.state_dtype == "bf16"
    assert found.names.memory_limit == pytest.approx(70 * 2**30)


def changed(path: Path, place: str, value: object) -> Path:
    document = yaml.safe_load(path.read_text())
    *outer, last = place.split(".")
    part = document
    for key in outer:
        part = part[key]
    part[last] = value
    path.write_text(yaml.safe_dump(document))
    return path


@pytest.mark.parametrize("part", ["model", "hardware", "runtime"])
def test_a_record_that_is_not_as_it_was_is_told(saved: Path, part: str) -> None:
    found = read_plan_file(changed(saved, f"{part}.sha256", "0" * 64))
    (told,) = found.changed
    assert told.startswith(part)


def test_emit_tells_a_changed_profile(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    assert planner("estimate", *JOB, "--tp", "2", "--save", str(path)).code == 0
    changed(path, "hardware.sha256", "0" * 64)
    done = planner("emit", str(path), "--out", str(tmp_path / "out"))
    assert done.code == 0
    assert "note: hardware dgx-h100 is not as it was" in done.err


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        ("format", "planner/plan/9", "planner/plan/1"),
        ("model.name", "lama2-7b", "llama2-7b"),
        ("hardware.name", "dgx-h10", "dgx-h100"),
        ("hardware.gpus", 9, "tp · pp · cp · dp = 8"),
        ("hardware.gpus", "8", "whole number"),
        ("hardware.gpus_per_node", 3, "divisor"),
        ("runtime.name", "megatron-l", "megatron-lm"),
        ("runtime.traits", {"attentio": "flash-2"}, "unknown trait"),
        ("runtime.traits", {"fused_norm": "yes"}, "true or false"),
        ("runtime.traits", {"attention": "flash-9"}, "flash-2"),
        ("plan.schedule", "1f2b", "1f1b"),
        ("plan.recompute", "fully", "full"),
        ("plan.tp", 0, "plan.tp"),
        ("plan.micro_batch", 3, "global_batch"),
        ("plan.zero", 7, "plan.zero"),
        ("plan.tensor", 7, "unknown key"),
        ("workload.seq_len", -4, "workload.seq_len"),
        ("workload.precision", "bf61", "bf16"),
        ("workload.optimizer", "adamv", "adamw"),
        ("memory_limit", 70, "no unit"),
    ],
)
def test_faults_are_told_with_their_place(saved: Path, place: str, value: object, words: str) -> None:
    changed(saved, place, value)
    with pytest.raises(InputError) as caught:
        read_plan_file(saved)
    assert str(saved) in str(caught.value)
    assert words in str(caught.value)
    done = planner("emit", str(saved), "--out", str(saved.parent / "out"))
    assert (done.code, done.out) == (2, "")


def test_all_faults_are_told_at_once(saved: Path) -> None:
    for place, value in (("model.name", "nope"), ("hardware.name", "nope"), ("plan.schedule", "nope")):
        changed(saved, place, value)
    with pytest.raises(InputError) as caught:
        read_plan_file(saved)
    assert len(caught.value.problems) == 3


def test_values_and_names_that_are_wrong_are_told_together(saved: Path) -> None:
    wrong = {"plan.tp": "two", "workload.seq_len": -1, "plan.schedule": "zbx", "workload.precision": "bf17"}
    for place, value in (wrong | {"runtime.name": "megatron-l"}).items():
        changed(saved, place, value)
    with pytest.raises(InputError) as caught:
        read_plan_file(saved)
    told = [problem.where.removeprefix(f"{saved}: ") for problem in caught.value.problems]
    assert sorted(told) == sorted([*wrong, "runtime.name"])


def test_the_json_of_a_command_is_told_from_a_plan(tmp_path: Path) -> None:
    path = tmp_path / "search.json"
    path.write_text('{"schema": "planner/search/1", "plans": []}')
    done = planner("explain", str(path))
    assert done.code == 2
    assert "found schema 'planner/search/1'; expected a plan file, as --save writes it" in done.err


def test_a_plan_that_does_not_fit_or_breaks_a_rule_is_not_emitted(tmp_path: Path) -> None:
    path, out = tmp_path / "plan.yaml", tmp_path / "out"
    assert planner("estimate", *JOB, "--memory-limit", "20", "--save", str(path)).code == 1
    done = planner("emit", str(path), "--out", str(out))
    assert done.code == 1
    assert "does not fit" in done.err
    assert not out.exists()
    assert planner("emit", str(path), "--out", str(out), "--force").code == 1
    warned = planner("emit", str(path), "--out", str(out), "--unfit")
    assert (warned.code, "warning: the plan needs" in warned.err) == (0, True)
    broken = ("--runtime", "torchtitan", "--zero", "1", "--save", str(path), "--force")
    assert planner("estimate", *JOB, *broken).code == 1
    done = planner("emit", str(path), "--out", str(tmp_path / "other"))
    assert (done.code, done.out) == (1, "")
    assert "zero-offered" in done.err


def test_an_alias_with_a_slash_stays_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ask = ("estimate", "meta-llama/Meta-Llama-3-8B", "--hardware", "dgx-h100", "--gpus", "8", "--tp", "8")
    done = planner(*ask, "--global-batch", "8", "--save", "plan.yaml")
    assert done.code in (0, 1), done.err
    assert (
        yaml.safe_load((tmp_path / "plan.yaml").read_text())["model"]["name"] == "meta-llama/Meta-Llama-3-8B"
    )
    again = read_plan_file(tmp_path / "plan.yaml")
    assert (again.job.model.name, again.changed) == ("llama3-8b", ())


def test_a_model_file_is_named_by_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shown = planner("models", "import", "config.json")
    assert shown.code == 2
    config = (
        '{"model_type": "llama", "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 4, '
        '"num_attention_heads": 8, "num_key_value_heads": 8, "vocab_size": 1000, '
        '"tie_word_embeddings": false, "max_position_embeddings": 4096, '
        '"rms_norm_eps": 1e-5, "hidden_act": "silu"}'
    )
    (tmp_path / "config.json").write_text(config)
    ask = ("estimate", "config.json", "--hardware", "dgx-h100", "--gpus", "1", "--global-batch", "4")
    done = planner(*ask, "--save", "plan.yaml")
    assert done.code == 0, done.err
    text = (tmp_path / "plan.yaml").read_text()
    assert str(tmp_path / "config.json") in text


@pytest.fixture(scope="module")
def with_settings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("settings") / "best.yaml"
    job = ("qwen3-30b-a3b", "--hardware", "dgx-h100", "--gpus", "8", "--global-batch", "64")
    pinned = ("--seq-len", "4096", "--runtime", "megatron-bridge", "--set", "expert_dispatcher=fused")
    assert planner("search", *job, *pinned, "--save", str(place), "--quiet").code == 0
    return place


PAGES = (
    ("explain",),
    ("compare",),
    ("mfu", "--step-time", "60"),
    ("goodput", "--checkpoint-time", "30s", "--restart-time", "5min"),
    ("report",),
)


@pytest.mark.parametrize("more", PAGES, ids=" ".join)
def test_every_page_of_a_plan_tells_its_settings(
    more: tuple[str, ...], with_settings: Path, tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    plans = [str(with_settings)] * (2 if more == ("compare",) else 1)
    out = ("--out", str(page)) if more == ("report",) else ()
    done = planner(more[0], *plans, *more[1:], *out)
    assert done.code == 0, done.err
    text = page.read_text(encoding="utf-8") if out else done.out
    assert "expert_dispatcher fused" in " ".join(text.split())
