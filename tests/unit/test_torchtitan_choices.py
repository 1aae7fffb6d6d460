"""float8, async tensor parallelism and one dtype of everything: written for torchtitan, read back, priced."""

from __future__ import annotations

import ast
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from planner.cost.estimate import estimate
from planner.errors import UnsupportedPlan
from planner.inputs.load import load_model
from planner.rules import violations
from planner.runtimes import runtimes
from planner.runtimes.torchtitan.schedules import ASYNC_EXPOSED
from tests.cases import every
from tests.cli.command import planner
from tests.unit.cost_jobs import job, plan_of, runtime
from tests.unit.shipped_eras import eras_by_name

ASK = (
    "llama3-8b", "--hardware", "dgx-h100", "--gpus", "16", "--seq-len", "8192", "--global-batch", "16",
    "--runtime", "torchtitan", "--tp", "8", "--sequence-parallel",
)  # fmt: skip
BF16 = ("--state-dtype", "bf16", "--master-dtype", "bf16", "--gradient-dtype", "bf16")
BLOCKS = (
    "llama3-8b", "--hardware", "gb200-nvl72", "--gpus", "4", "--global-batch", "128", "--seq-len", "2048",
    "--runtime", "torchtitan", "--micro-batch", "8",
)  # fmt: skip
ASYNC = ("--set", f"tp_exposed={ASYNC_EXPOSED}")
TENSOR = ("--set", "float8_scales=tensor")


def round_trip(folder: Path, version: str, *asked: str) -> tuple[dict[str, Any], dict[str, Any], str]:
    """What was priced, what is read back from its files, and their text."""
    plan, out = str(folder / "plan.yaml"), folder / "out"
    release = ("--target-version", version)
    before = planner("estimate", *ASK, *asked, *release, "--save", plan, "--format", "json").json
    done = planner("emit", plan, "--out", str(out))
    assert done.code == 0, done.err
    script = str(out / "train.sh")
    read = planner("estimate", "--from", script, "--hardware", "dgx-h100", *release, "--format", "json")
    assert read.code == 0, read.err
    return before, read.json, "".join(file.read_text() for file in sorted(out.iterdir()))


@pytest.mark.parametrize(
    ("version", "asked", "word"),
    [
        ("main-2026-08-21", (), "--training.dtype float32"),
        ("main-2026-08-21", (), "LOSS_CHUNKS = 8"),
        ("main-2026-08-21", ("--set", "loss_chunks=1"), "LOSS_CHUNKS = 1"),
        ("main-2026-08-21", ("--set", "async_tp=on"), "--compile.enable_async_tensor_parallel"),
        ("main-2026-08-21", BF16, "--training.dtype bfloat16"),
        ("main-2026-08-21", ("--precision", "fp8"), 'FLOAT8 = "rowwise"'),
        ("main-2026-08-21", ASYNC, "--compile.enable_async_tensor_parallel"),
        ("main-2026-08-21", ("--set", "loss_chunks=16"), "LOSS_CHUNKS = 16"),
        ("0.2.2", BF16, 'dtype = "bfloat16"'),
        ("0.2.2", ("--precision", "fp8"), 'recipe_name = "tensorwise"'),
        ("0.2.2", ("--precision", "fp8", *TENSOR), 'recipe_name = "tensorwise"'),
        ("0.2.2", ASYNC, "enable_async_tensor_parallel = true"),
        ("0.2.0", ("--precision", "fp8", *ASYNC), "[quantize.linear.float8]"),
    ],
)
def test_what_was_priced_is_written_and_read_back(
    tmp_path: Path, version: str, asked: tuple[str, ...], word: str
) -> None:
    before, read, text = round_trip(tmp_path, version, *asked)
    assert word in text.replace("\\\n", "").replace("  ", " ")
    assert read["from"]["not_understood"] == []
    assert {key: read[key] for key in ("plan", "workload", "step_time_s", "memory", "violations")} == {
        key: before[key] for key in ("plan", "workload", "step_time_s", "memory", "violations")
    }


@pytest.mark.parametrize(
    ("version", "asked", "word"),
    [
        ("main-2026-08-21", ("--precision", "mxfp8"), 'MXFP8LinearConverter.Config(fqns=["layers."]'),
        ("main-2026-08-21", ("--precision", "nvfp4"), 'NVFP4LinearConverter.Config(fqns=["layers."]'),
        ("0.2.2", ("--precision", "mxfp8"), 'converters = ["quantize.linear.mx"]'),
        ("0.2.2", ("--recompute", "full:16"), 'selective_ac_option = "2"'),
        ("0.2.2", ("--recompute", "full:10"), 'selective_ac_option = "3"'),
        ("0.2.1", ("--cp", "2", "--cp-method", "ring"), 'context_parallel_rotate_method = "alltoall"'),
    ],
)
def test_blocks_of_low_bits_rings_and_every_nth_layer(
    tmp_path: Path, version: str, asked: tuple[str, ...], word: str
) -> None:
    plan, out, release = str(tmp_path / "plan.yaml"), tmp_path / "out", ("--target-version", version)
    before = planner("estimate", *BLOCKS, *asked, *release, "--save", plan, "--format", "json")
    assert (before.code, planner("emit", plan, "--out", str(out)).code) == (0, 0)
    assert word in "".join(file.read_text() for file in sorted(out.iterdir()))
    script = str(out / "train.sh")
    read = planner("estimate", "--from", script, "--hardware", "gb200-nvl72", *release, "--format", "json")
    kept = ("plan", "workload", "step_time_s", "memory")
    assert {key: read.json[key] for key in kept} == {key: before.json[key] for key in kept}


def test_experts_and_dense_layers_are_converted_and_the_head_is_not(tmp_path: Path) -> None:
    ask = ("qwen3-30b-a3b", "--hardware", "dgx-h100", "--gpus", "16", "--global-batch", "16", "--runtime")
    plan = str(tmp_path / "plan.yaml")
    planner("estimate", *ask, "torchtitan", "--precision", "fp8", "--ep", "8", "--save", plan)
    for version in ("main-2026-08-21", "0.2.2"):
        out = tmp_path / version
        assert planner("emit", plan, "--out", str(out), "--target-version", version).code == 0
        module = (out / "titan_plan.py").read_text()
        ast.parse(module)
        text = module + "".join(file.read_text() for file in out.glob("*.toml"))
        assert "Float8GroupedExpertsConverter.Config(" in text or "quantize.grouped_mm.float8" in text
        assert '"lm_head", "router.gate"' in text or '"output", "router.gate"' in text


def test_training_in_one_16_bit_dtype_takes_eight_bytes_a_weight() -> None:
    """torchtitan, config/configs.py, ``training.dtype``: all parameters, gradients, states; no fp32 copy."""
    dtypes = {"state_dtype": "bf16", "master_dtype": "bf16", "gradient_dtype": "bf16"}
    model = load_model("llama2-7b")
    low, plain = (
        estimate(plan_of(work, zero=3), work, runtime("torchtitan")).stages[0]
        for work in (job(model, 8, **dtypes), job(model, 8))
    )
    share = model.params / 8
    assert (low.weights + low.optimizer) / share == pytest.approx(2 + 4, rel=0.01)
    assert (plain.weights + plain.optimizer) / share == pytest.approx(4 + 8, rel=0.01)
    work = job(model, 8, state_dtype="bf16")
    found = violations(runtimes()["torchtitan"].rules(plan_of(work, zero=3), work))
    assert [one.rule for one in found] == ["one-training-dtype"]


@every(
    ("version", "asked"),
    [
        ("main-2026-08-21", ("--precision", "fp8", *TENSOR)),
        ("main-2026-08-21", (*ASYNC, "--no-sequence-parallel")),
        ("0.2.2", (*ASYNC, "--set", "compiled=false")),
        ("0.2.2", ("--set", "loss_chunks=4")),
        ("main-2026-08-21", ("--set", "loss_chunks=16", "--seq-len", "8184")),
        ("main-2026-08-21", ("--recompute", "full:16")),
        ("0.2.2", ("--recompute", "full:20")),
        ("0.2.2", ("--zero", "0")),
    ],
)
def test_what_a_release_cannot_do_is_refused(tmp_path: Path, version: str, asked: tuple[str, ...]) -> None:
    plan = str(tmp_path / "plan.yaml")
    ask: tuple[str, ...] = ASK[:-1] if "--no-sequence-parallel" in asked else ASK
    if "--seq-len" in asked:
        ask = tuple(word for word in ask if word not in ("--seq-len", "8192"))
    release = ("--target-version", version)
    assert planner("estimate", *ask, *asked, *release, "--save", plan).code == 1
    done = planner("emit", plan, "--out", str(tmp_path / "out"), "--target-version", version)
    assert done.code == UnsupportedPlan.exit_code
    assert "nearest" in done.err


def test_float8_is_searched_and_faster_on_long_rows() -> None:
    ask = ("llama3-8b", "--hardware", "dgx-h100", "--gpus", "8", "--seq-len", "8192", "--global-batch", "16")
    best = {
        precision: planner(
            "search", *ask, "--runtime", "torchtitan", "--precision", precision, "--format", "json"
        ).json["plans"][0]["step_time_s"]
        for precision in ("bf16", "fp8")
    }
    assert best["fp8"] < best["bf16"]


@every(("chunks", "wrapped"), [(1, False), (8, True)])
def test_the_loss_is_written_in_the_parts_that_are_priced(tmp_path: Path, chunks: int, wrapped: bool) -> None:
    _, _, text = round_trip(tmp_path, "main-2026-08-21", "--set", f"loss_chunks={chunks}")
    module = (tmp_path / "out" / "titan_plan.py").read_text()
    tree = ast.parse(module)
    wanted = {"loss", "LOSS_CHUNKS"}
    kept = [
        node
        for node in tree.body
        if getattr(node, "name", "") in wanted
        or (isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") in wanted)
    ]
    classes = {
        name: SimpleNamespace(Config=lambda name=name, **said: (name, said))
        for name in ("ChunkedLossWrapper", "CrossEntropyLoss")
    }
    scope: dict[str, Any] = {**classes, "MODEL": {"vocab_size": 7}}
    exec(compile(ast.Module(kept, []), "titan_plan.py", "exec"), scope)
    whole = ("CrossEntropyLoss", {"global_vocab_size": 7})
    expected = ("ChunkedLossWrapper", {"num_chunks": chunks, "loss_fn": whole}) if wrapped else whole
    assert scope["loss"]() == expected
    assert "loss=loss()" in text


def chunked_peak(tokens: int, vocab: int, hidden: int, parts: int) -> int:
    """Play torchtitan's loop over the parts of a micro-batch and return its highest bytes, states left out.

    The head is gathered in 16 bit for all parts. Each part has logits, six bytes apiece with their gradient,
    and a head's gradient in 16 bit; those of the parts are summed in fp32, as they are reduced, and so is the
    gradient of the hidden state.
    """
    live, peak = 2 * vocab * hidden + 4 * tokens * hidden, 0
    for part in range(parts):
        made = 6 * (tokens // parts) * vocab + 2 * vocab * hidden
        live += 4 * vocab * hidden * (part == 0)
        peak = max(peak, live + made)
    return peak


@every("parts", [2, 4, 8])
def test_memory_at_a_loss_in_parts_is_that_of_the_loop(parts: int) -> None:
    model, tokens = load_model("qwen3-30b-a3b"), 8 * 4096
    work = job(model, 8, seq_len=4096, global_batch=64)
    plan = plan_of(work, zero=3, ep=8, micro_batch=8, recompute="selective")
    titan = runtimes()["torchtitan"]
    cut = titan.with_traits(loss_chunks=float(parts))
    whole = titan.with_traits(loss_chunks=1.0)
    stages = [estimate(plan, work, one).stages[0] for one in (whole, cut)]
    assert stages[1].workspace == pytest.approx(
        chunked_peak(tokens, model.vocab, model.hidden, parts), rel=1e-3
    )
    assert stages[1].activations == stages[0].activations
    assert stages[1].workspace < stages[0].workspace


def test_dates_without_a_release_have_the_loss_in_parts() -> None:
    """All configurations of b5bcd76c have a ``ChunkedLossWrapper``, those of the years before none."""
    known = eras_by_name()
    assert known["torchtitan"].traits["loss_chunks"] == runtimes()["torchtitan"].traits.loss.chunks == 8.0
    for older in ("torchtitan-2024", "torchtitan-2025", "torchtitan-0.2.2"):
        assert known[older].traits["loss_chunks"] == 1.0


def test_fused_kernels_bring_each_token_back_once() -> None:
    """Selective recompute keeps what messages bring: copies both ways, or copies out and tokens back.

    By hand: 32,768 tokens of 2,048 with eight experts, ep 8: (8 + 8) or (8 + 1) rows of 128 MiB a layer.
    """
    asked = (
        *("qwen3-30b-a3b", "--hardware", "dgx-b200", "--gpus", "8", "--ep", "8", "--micro-batch", "8"),
        *("--global-batch", "64", "--seq-len", "4096", "--runtime", "torchtitan", "--recompute", "selective"),
        *("--zero", "3", "--format", "json"),
    )
    plain, fused, narrow = (
        planner("estimate", *asked, *more).json["memory"]["stages"][0]
        for more in ((), ("--set", "dispatcher=fused"), BF16)
    )
    assert plain["activations_gib"] - fused["activations_gib"] == pytest.approx(48 * 7 * 0.125)
    assert fused["total_gib"] < 178 < plain["total_gib"]
    assert narrow["total_gib"] < 178, "parameters, gradients and states of two bytes instead of four"


@every(("release", "parts"), [("main-2026-08-21", "8"), ("0.2.2", "1")])
def test_a_search_tries_what_its_release_has(release: str, parts: str) -> None:
    """0.2.2 has no loss in parts (no ``num_chunks`` in its code): its plans have none, and there are some."""
    ask = ("llama3-8b", "--hardware", "dgx-h100", "--gpus", "8", "--seq-len", "8192", "--global-batch", "16")
    found = planner(
        "search", *ask, "--runtime", f"torchtitan@{release}", "--precision", "fp8", "--format", "json"
    )
    plans = found.json["plans"]
    assert plans
    assert {plan["settings"]["loss_chunks"] for plan in plans} == {parts}
    assert len({plan["settings"]["float8_scales"] for plan in plans}) == 1


def test_async_tensor_parallelism_is_found_where_tensor_parallelism_is_wanted() -> None:
    """Its published pairs with and without it are priced in their order: the search takes the faster one."""
    found = planner("search", *ASK, "--format", "json").json["plans"][0]
    plain = planner("search", *ASK, "--set", "async_tp=off", "--format", "json").json["plans"][0]
    assert found["settings"]["async_tp"] == "on"
    assert found["step_time_s"] < plain["step_time_s"]
