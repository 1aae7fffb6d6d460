"""Whatever a user types, the answer is a document or a message: never a traceback, never half a document."""

from __future__ import annotations

import math
from pathlib import Path

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from planner.inputs.load import model_names
from planner.inputs.load_hardware import cluster_names
from planner.runtimes import runtimes
from planner.techniques.optimizers import OPTIMIZERS
from planner.techniques.precision import PRECISIONS
from planner.techniques.schedules import SCHEDULES
from tests.cli.command import Done, planner
from tests.cli.schema import ESTIMATE_KEYS, SEARCH_KEYS, key_tree
from tests.texts import LETTERS

DEGREES = st.sampled_from([1, 1, 1, 2, 2, 3, 4, 5, 8, 16])
OPTIONS = (
    "--hardware", "--gpus", "--gpus-per-node", "--memory-limit", "--seq-len", "--global-batch",
    "--global-batch-tokens", "--precision", "--optimizer", "--state-dtype", "--gradient-dtype", "--tokens",
    "--method", "--lora-rank", "--imbalance", "--runtime", "--set", "--tp", "--pp", "--vpp", "--cp", "--ep",
    "--etp", "--dp", "--zero", "--zero-shards", "--micro-batch", "--recompute", "--cp-method", "--schedule",
    "--offload", "--stage-layers", "--format",
)  # fmt: skip
VALUES = st.one_of(
    st.text(LETTERS, max_size=12),
    st.integers(-(10**20), 10**20).map(str),
    st.floats().map(str),
    st.sampled_from(
        ["8", "1..4", "full:0", "selective:", "flash-2=", "attention=", "1,2", "4Mi", "/", "~", "\x00"]
    ),
)


def answered(done: Done) -> None:
    """Hold what is true of every command."""
    assert done.code in (0, 1, 2), done.err
    assert "Traceback" not in done.err
    assert "internal error" not in done.err
    if done.code == 2:
        assert done.out == ""
        assert done.err.startswith("error: ")
    else:
        assert all(line.startswith("note: ") for line in done.err.splitlines())


@st.composite
def plans(draw: st.DrawFn) -> list[str]:
    """Return the options of an estimate: known names, degrees that may or may not be legal."""
    degrees = {name: draw(DEGREES) for name in ("tp", "pp", "cp", "dp")}
    words = [
        "estimate",
        draw(st.sampled_from(model_names())),
        *("--hardware", draw(st.sampled_from(cluster_names()))),
        *("--runtime", draw(st.sampled_from(list(runtimes())))),
        *("--precision", draw(st.sampled_from(["bf16", "bf16", *PRECISIONS]))),
        *("--optimizer", draw(st.sampled_from(list(OPTIMIZERS)))),
        *("--global-batch", draw(st.sampled_from(["1", "48", "64", "480"]))),
        *("--seq-len", draw(st.sampled_from(["128", "4096", "5000", "65536"]))),
        *(
            "--recompute",
            draw(st.sampled_from(["none", "selective", "full", "full:2", "selective:mlp+norm"])),
        ),
        *("--cp-method", draw(st.sampled_from(["ring", "all-gather", "all-to-all"]))),
        *("--zero", str(draw(st.integers(0, 3)))),
        *(word for name, degree in degrees.items() for word in (f"--{name}", str(degree))),
    ]
    for name in ("vpp", "ep", "etp", "micro-batch", "zero-shards"):
        if draw(st.booleans()):
            words += [f"--{name}", str(draw(DEGREES))]
    if draw(st.booleans()):
        words += ["--schedule", draw(st.sampled_from(list(SCHEDULES)))]
    return [*words, *(["--sequence-parallel"] if draw(st.booleans()) else [])]


FEWER_RANKS_THAN_SHARDS = [
    "estimate", "aquila2-34b", "--hardware", "a2-highgpu-8g", "--runtime", "torchtitan", "--optimizer",
    "adam8bit", "--global-batch", "48", "--zero", "0", "--zero-shards", "2", "--schedule", "bitpipe",
]  # fmt: skip
"""Half a replica of each shard, which no plan has, once took less than no time for its messages."""


@settings(max_examples=60)
@given(plans())
@example(FEWER_RANKS_THAN_SHARDS)
def test_every_plan_is_answered_in_full(words: list[str]) -> None:
    done = planner(*words, "--format", "json")
    answered(done)
    if done.code == 2:
        return
    answer = done.json
    without = [(name, None) if name == "price" and answer["price"] is None else (name, keys)
               for name, keys in ESTIMATE_KEYS]  # fmt: skip
    priced = [("moments", ["engine", "loss", "stages"])] if answer["step_time_s"] is not None else []
    lacking = [("would_fit", ["single", "enough"])] if "would_fit" in answer else []
    assert key_tree(answer) == [*without, *priced, *lacking]
    assert not lacking or answer["stages"]
    assert answer["feasible"] == (done.code == 0)
    if answer["step_time_s"] is None:
        assert answer["violations"]
        return
    assert all(seconds >= 0 for seconds in answer["time_s"].values())
    if not answer["violations"]:
        assert math.isclose(sum(answer["time_s"].values()), answer["step_time_s"], rel_tol=1e-9)
        fits = answer["memory"]["peak_gib"] <= answer["memory"]["capacity_gib"]
        assert answer["feasible"] == fits


@settings(max_examples=25)
@given(plans(), st.sampled_from(["table", "csv", "markdown"]))
def test_every_plan_is_shown_to_people(words: list[str], shown: str) -> None:
    answered(planner(*words, "--format", shown))


@settings(max_examples=150)
@given(st.lists(st.tuples(st.sampled_from(OPTIONS), VALUES), max_size=4), st.booleans())
@example([("--gpus", "9" * 5000)], True)
@example([("--set", "framework_bytes=1e400")], True)
@example([("--stage-layers", "," * 3000)], True)
def test_broken_options_are_told(options: list[tuple[str, str]], job: bool) -> None:
    given_job = ("--hardware", "dgx-h100", "--gpus", "8") if job else ()
    words = [f"{name}={value}" for name, value in options]
    answered(planner("estimate", "llama2-7b", *given_job, *words))


@settings(max_examples=40)
@given(
    st.lists(
        st.one_of(st.text(LETTERS, max_size=10), st.sampled_from(["search", "models", "--help", "emit"])),
        max_size=4,
    )
)
def test_any_words_are_answered(words: list[str]) -> None:
    done = planner(*words)
    assert done.code in (0, 1, 2)
    assert "Traceback" not in done.err
    assert "internal error (" not in done.err


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=300), st.integers(0, 2000))
def test_broken_plan_files_are_told(tmp_path: Path, noise: bytes, place: int) -> None:
    path = tmp_path / "plan.yaml"
    ask = ("estimate", "llama2-7b", "--hardware", "dgx-h100", "--gpus", "8", "--tp", "2")
    assert planner(*ask, "--save", str(path), "--force").code == 0
    good = path.read_bytes()
    path.write_bytes(good[: place % len(good)] + noise + good[place % len(good) + len(noise) :])
    done = planner("emit", str(path), "--out", str(tmp_path / "out"), "--force")
    assert done.code in (0, 1, 2), done.err
    assert "internal error" not in done.err


@settings(max_examples=6)
@given(
    st.sampled_from(["qwen2.5-0.5b", "llama3-8b", "qwen3-30b-a3b", "gpt2-xl", "gemma3-4b"]),
    st.sampled_from(["dgx-h100", "dgx-a100-80gb", "mi300x-8", "l40s-8-pcie", "trn1.32xlarge"]),
    st.sampled_from(list(runtimes())),
    st.sampled_from(["1", "3", "4", "8"]),
    st.sampled_from(["full", "lora"]),
)
def test_every_search_is_answered_in_full(
    model: str, cluster: str, runtime: str, gpus: str, method: str
) -> None:
    job = (model, "--hardware", cluster, "--gpus", gpus, "--runtime", runtime, "--method", method)
    done = planner("search", *job, "--global-batch", "16", "--format", "json")
    answered(done)
    if done.code != 2:
        assert [key for key in done.json if key != "played"] == SEARCH_KEYS
        assert (done.code == 0) == bool(done.json["plans"])
        assert all(answer["feasible"] for answer in done.json["plans"])
        assert (done.json["nearest"] is None) == (done.code == 0)
