"""A plan's own kernels on this processor: what is priced is what runs, and bytes are counted alike."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from planner.cost.estimate import Estimate, estimate
from planner.cost.layer.shapes import Shape
from planner.inputs.load import load_model
from planner.inputs.load_hardware import load_hardware
from planner.inputs.workload import Workload
from planner.plan import Plan
from planner.profile.check import Checked, check_plan
from planner.profile.check_block import Layer, kept_bytes
from planner.profile.check_kernels import Widths, _backward, build
from planner.profile.check_shapes import checked_case, stage_parts
from planner.profile.device import open_device
from planner.runtimes import runtimes
from planner.runtimes.family import Job
from tests.helpers import run_planner

pytestmark = pytest.mark.torch

DENSE = """\
name: tiny
hidden: 128
vocab: 512
tied_embeddings: false
max_positions: 512
blocks:
  dense:
    mixer: {kind: attention, heads: 4, kv_heads: 2, head_dim: 32}
    ffn: {kind: dense, inner: 384}
layers: 4 dense
"""
MOE = DENSE.replace("{kind: dense, inner: 384}", "{kind: moe, experts: 4, topk: 2, inner: 128}")


def priced(tmp_path: Path, text: str = DENSE, **axes: object) -> Estimate:
    (tmp_path / "tiny.yaml").write_text(text, encoding="utf-8")
    workload = Workload(seq_len=128, global_batch=8)
    job = Job(load_model(str(tmp_path / "tiny.yaml")), load_hardware("dgx-h100"), 8, workload)
    fields = {"tp": 2.0, "dp": 4.0, "num_microbatches": 1.0, "micro_batch": 2.0, "zero_shards": 4.0} | axes
    return estimate(Plan(**fields), job, runtimes()["megatron-lm"])  # type: ignore[arg-type]


def checked(tmp_path: Path, text: str = DENSE, **axes: object) -> Checked:
    return check_plan(priced(tmp_path, text, **axes), open_device("cpu"), lambda _share, _what: None)


@pytest.mark.parametrize("text", [DENSE, MOE], ids=["dense", "moe"])
def test_every_operator_of_the_stage_is_measured(tmp_path: Path, text: str) -> None:
    result = checked(tmp_path, text)
    unmeasured = {row.operator for row in result.operators if row.measured is None}
    assert unmeasured <= {"residual_attention", "residual_mlp"}
    assert result.covered > 0.9
    assert all(row.measured is None or row.measured > 0 for row in result.operators)


def test_the_step_moves_by_what_the_kernels_take_longer(tmp_path: Path) -> None:
    """A processor is far slower than an H100: the move is the measured excess over the stage's share."""
    result = checked(tmp_path)
    assert result.moved > result.step
    assert any("predicted for h100-80gb-sxm, measured on" in note for note in result.notes)


def test_shapes_are_one_ranks_share(tmp_path: Path) -> None:
    """Tp 2 of 4 heads of 32 with 2 key/value heads, on 2 sequences of 128 tokens."""
    case, plan, _ = checked_case(priced(tmp_path))
    shapes = next(part.shapes for part in stage_parts(case, plan) if part.name == "dense")
    assert shapes["qkv"].sizes == {"rows": 256, "inputs": 128, "outputs": (2 + 1 + 1) * 32}
    assert shapes["mlp_in"].sizes == {"rows": 256, "inputs": 128, "outputs": 384}
    assert (shapes["attention"].sizes["heads"], shapes["attention"].sizes["shared"]) == (2, 2)


def test_full_recompute_runs_forward_twice_and_keeps_the_input_alone(tmp_path: Path) -> None:
    case, plan, _ = checked_case(priced(tmp_path, recompute="full"))
    part = next(part for part in stage_parts(case, plan) if part.name == "dense")
    assert part.repeats["qkv"] == 2
    layer = Layer(open_device("cpu"), case, plan, case.model.blocks["dense"], part.shapes)
    assert kept_bytes(layer, recompute=True).held == 2 * 256 * 128


def test_the_block_that_is_counted_is_the_models(tmp_path: Path) -> None:
    """Its result equals that of a layer written with torch's own modules and the same weights."""
    case, plan, _ = checked_case(priced(tmp_path, tp=1.0, dp=8.0))
    part = next(part for part in stage_parts(case, plan) if part.name == "dense")
    layer = Layer(open_device("cpu"), case, plan, case.model.blocks["dense"], part.shapes)
    weights = {name: weight.detach().double() for name, weight in layer.weights().items()}
    data = torch.randn(256, 128, dtype=torch.float64)
    torch.testing.assert_close(layer.forward(weights, data), reference(weights, data), rtol=1e-6, atol=1e-9)


def reference(weights: dict[str, torch.Tensor], data: torch.Tensor) -> torch.Tensor:
    """A Llama layer by hand: angles of 45 degrees in every pair, as the layer under test has them."""

    def norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return x / torch.sqrt((x * x).mean(-1, keepdim=True) + torch.finfo(x.dtype).eps) * weight

    def turn(x: torch.Tensor) -> torch.Tensor:
        left, right = x.chunk(2, dim=-1)
        return torch.cat((left - right, right + left), dim=-1)

    width = (norm(data, weights["norm_0"]) @ weights["qkv"].T).view(2, 128, 8, 32)
    query, key, value = turn(width[:, :, :4]), turn(width[:, :, 4:6]), width[:, :, 6:]
    key, value = key.repeat_interleave(2, dim=2), value.repeat_interleave(2, dim=2)
    scores = torch.einsum("bshd,bthd->bhst", query, key) / 32**0.5
    mask = torch.ones(128, 128, dtype=torch.bool).triu(1)
    mixed = torch.einsum("bhst,bthd->bshd", scores.masked_fill(mask, -torch.inf).softmax(-1), value)
    data = data + mixed.reshape(256, 128) @ weights["attention_out"].T
    gate, up = (norm(data, weights["norm_1"]) @ weights["mlp_in"].T).chunk(2, dim=-1)
    return data + (gate * torch.sigmoid(gate) * up) @ weights["mlp_out"].T


def test_the_command_fails_past_its_tolerance_and_still_answers(tmp_path: Path) -> None:
    (tmp_path / "tiny.yaml").write_text(DENSE, encoding="utf-8")
    arguments = (
        "--hardware",
        "dgx-h100",
        "--gpus",
        "1",
        "--seq-len",
        "128",
        "--global-batch",
        "2",
        "--save",
        "p.yaml",
    )
    done = run_planner("estimate", "tiny.yaml", *arguments, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    done = run_planner("check", "p.yaml", "--device", "cpu", "--format", "json", cwd=tmp_path)
    answer = json.loads(done.stdout)
    assert done.returncode == 1
    assert answer["within"] is False
    assert "the step estimate should move by" in done.stderr
    easy = run_planner("check", "p.yaml", "--device", "cpu", "--tolerance", "1e9", cwd=tmp_path)
    assert easy.returncode == 0, easy.stderr


def test_a_senseless_tolerance_is_refused(tmp_path: Path) -> None:
    done = run_planner("check", "p.yaml", "--device", "cpu", "--tolerance", "nan", cwd=tmp_path)
    assert done.returncode == 2
    assert "--tolerance" in done.stderr


def test_backward_of_a_product_adds_the_weights_gradient_to_its_buffer() -> None:
    """Twice the same backward pass leaves twice the gradient, in the buffer alone."""
    device = open_device("cpu")
    shape = Shape("linear", {"rows": 3.0, "inputs": 4.0, "outputs": 2.0})
    widths = Widths(hidden=4, head_dim=2, vocab=8, gated=True, norm="rmsnorm", gradient="fp32")
    kernel = build("mlp_out", shape, widths, runtimes()["fsdp"].traits, device)
    data, _ = kernel.inputs
    run = _backward(kernel, kernel.forward(), device)
    run()
    first = kernel.buffer.clone()
    run()
    assert kernel.buffer.dtype == torch.float32
    assert first.shape == (2, 4)
    assert first.abs().sum() > 0
    torch.testing.assert_close(kernel.buffer, 2 * first)
    assert data.grad is None
    assert (
        build("mlp_out", shape, replace(widths, gradient=""), runtimes()["fsdp"].traits, device).buffer
        is None
    )
