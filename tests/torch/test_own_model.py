"""Models of one's own through ``torch.export``: parameters, FLOPs and layers, and what cannot be read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from typer.testing import CliRunner

from planner.cli.models import app
from planner.cost.flops import product_weights
from planner.errors import InputError
from planner.inputs.hf_config import model_from_config
from planner.inputs.load import load_model
from planner.inputs.model import ModelSpec
from planner.inputs.own_model.read import read_own_model
from planner.inputs.own_model.trace import TOKENS

pytestmark = pytest.mark.torch

OWN = """
import torch
from torch import nn
import torch.nn.functional as F


class Layer(nn.Module):
    def __init__(self, d, heads, conv):
        super().__init__()
        self.heads = heads
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.up, self.down = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)
        self.conv = nn.Conv1d(d, d, 3, groups=d, padding=2) if conv else None

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (y.view(b, t, self.heads, -1).transpose(1, 2) for y in self.qkv(self.n1(x)).split(d, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, d))
        if self.conv is not None:
            x = x + self.conv(x.transpose(1, 2))[..., :t].transpose(1, 2)
        return x + self.down(F.gelu(self.up(self.n2(x)), approximate="tanh"))


class Own(nn.Module):
    def __init__(self, d=128, layers=4, conv=True):
        super().__init__()
        self.tok, self.pos = nn.Embedding(500, d), nn.Embedding(256, d)
        self.h = nn.ModuleList(Layer(d, 8, conv and i % 2 == 1) for i in range(layers))
        self.norm, self.head = nn.LayerNorm(d), nn.Linear(d, 500, bias=False)
        self.head.weight = self.tok.weight

    def forward(self, ids):
        x = self.tok(ids) + self.pos(torch.arange(ids.shape[1], device=ids.device))
        for layer in self.h:
            x = layer(x)
        return self.head(self.norm(x))


def plain():
    return Own(conv=False)


class Looped(Own):
    def forward(self, ids):
        return super().forward(ids) if ids.sum() > 0 else ids
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "own.py"
    path.write_text(OWN)
    return path


def counted(file: Path, name: str) -> tuple[int, int]:
    """Return the parameters of the model of a file, and the FLOPs of its forward pass without attention's."""
    names: dict[str, Any] = {}
    exec(compile(file.read_text(), str(file), "exec"), names)
    with torch.device("meta"):
        model = names[name]()
        with FlopCounterMode(display=False) as counter:
            model(torch.zeros(1, TOKENS, dtype=torch.long))
    core = sum(  # attention is two products of activations on meta tensors
        flops for op, flops in counter.get_flop_counts()["Global"].items() if "bmm" in str(op)
    )
    return sum(one.numel() for one in model.parameters()), counter.get_total_flops() - core


def products(model: ModelSpec) -> float:
    weights = sum(product_weights(model.blocks[name], model.hidden) for name in model.layers)
    return 2.0 * TOKENS * (weights + model.vocab * model.hidden)


@pytest.mark.parametrize("name", ["Own", "plain"])
def test_parameters_and_flops_are_those_that_pytorch_counts(file: Path, name: str) -> None:
    """A convolution beside known parts among them: its padding makes two rows more than there are tokens."""
    model, notes = read_own_model(file, name)
    params, flops = counted(file, name)
    assert model.params == params
    assert flops <= products(model) * (1 + 1e-9) + 1
    assert products(model) == pytest.approx(flops, rel=2e-3)
    assert any("conv1d" in note for note in notes) == (name == "Own")
    assert model.learned_positions
    assert model.tied_embeddings
    assert model.numerics.activation == "gelu_tanh"


def test_the_command_writes_what_the_planner_reads(file: Path, tmp_path: Path) -> None:
    out = tmp_path / "own.yaml"
    done = CliRunner().invoke(app, ["import", f"{file}:plain", "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert load_model(str(out)).params == counted(file, "plain")[0]


@pytest.mark.parametrize(
    ("name", "said"),
    [("Ow", "one of Layer, Own, plain, Looped"), ("Layer", "needs no arguments"), ("Looped", "torch.export")],
)
def test_what_cannot_be_exported_is_one_message(file: Path, name: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        read_own_model(file, name)
    assert said in str(caught.value)


SMALL = {
    "hidden_size": 128, "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 8,
    "num_key_value_heads": 2, "vocab_size": 97, "max_position_embeddings": 256,
}  # fmt: skip
HUB = """
import transformers
from torch import nn


class Wrapped(nn.Module):
    def __init__(self):
        super().__init__()
        config = transformers.AutoConfig.for_model({kind!r}, **{fields!r})
        self.m = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="sdpa")

    def forward(self, ids):
        return self.m(input_ids=ids, use_cache=False).logits
"""


@pytest.mark.parametrize(
    "kind", ["llama", "qwen2", "qwen3", "olmo2", "stablelm", "phi", "gpt_neox", "cohere"]
)
def test_models_of_transformers_fold_into_the_layers_that_their_configs_say(
    kind: str, tmp_path: Path
) -> None:
    """Norms on heads or after parts, biases, parallel blocks: two readers that share no code agree."""
    pytest.importorskip("transformers")
    fields = SMALL | ({"num_key_value_heads": 8} if kind in ("phi", "gpt_neox") else {})
    file = tmp_path / "hub.py"
    file.write_text(HUB.format(kind=kind, fields=fields))
    folded, _ = read_own_model(file, "Wrapped")
    said = model_from_config({"model_type": kind} | fields, "config.json", kind).model
    assert folded.params == said.params
    assert [folded.blocks[name] for name in folded.layers] == [said.blocks[name] for name in said.layers]
    assert set(folded.variants) == set(said.variants)


def test_experts_by_hand_are_refused(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    file = tmp_path / "hub.py"
    file.write_text(HUB.format(kind="mixtral", fields=SMALL | {"num_local_experts": 4}))
    with pytest.raises(InputError, match="no experts by hand"):
        read_own_model(file, "Wrapped")
