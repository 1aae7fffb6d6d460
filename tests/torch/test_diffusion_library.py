"""Diffusion transformers beside the library: parameters, FLOPs, and what autograd keeps of a block."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from planner.cost.layer.block_parts import NOTHING_KEPT, diffusion_flops, sample_rows
from planner.inputs.block_parts import CorePart, ProductPart
from planner.inputs.diffusers import FAMILIES
from planner.inputs.hf_config import model_from_config
from planner.inputs.model import ModelSpec
from tests.helpers import ROOT

pytestmark = pytest.mark.torch

diffusers = pytest.importorskip("diffusers")

CHECKED = json.loads((ROOT / "tests" / "unit" / "data" / "checked_configs.json").read_text())["models"]

LATTE = {
    "in_channels": 4, "patch_size": 2, "cross_attention_dim": 1152, "norm_type": "ada_norm_single",
    "num_embeds_ada_norm": 1000, "caption_channels": 4096, "attention_head_dim": 72,
}  # fmt: skip
SAID: dict[str, list[dict[str, Any]]] = {
    "FluxTransformer2DModel": [{}, {"guidance_embeds": True, "num_layers": 3, "out_channels": 128}],
    "SD3Transformer2DModel": [{}, {"qk_norm": "rms_norm", "dual_attention_layers": [0, 1, 17]}],
    "PixArtTransformer2DModel": [
        {"caption_channels": 4096},
        {"caption_channels": 4096, "sample_size": 64, "activation_fn": "geglu"},
        {"caption_channels": 4096, "norm_elementwise_affine": True, "attention_bias": False},
    ],
    "DiTTransformer2DModel": [{}, {"out_channels": 8, "norm_elementwise_affine": True}],
    "LatteTransformer3DModel": [LATTE, LATTE | {"num_layers": 3, "activation_fn": "gelu-approximate"}],
    "WanTransformer3DModel": [{"num_layers": 2}, {"num_layers": 2, "cross_attn_norm": False}],
    "HunyuanVideoTransformer3DModel": [
        {},
        {"guidance_embeds": False, "num_refiner_layers": 1, "mlp_ratio": 3.0},
    ],
    "CogVideoXTransformer3DModel": [{}, {"ofs_embed_dim": 512, "patch_size_t": 2, "patch_bias": False}],
}
"""Configurations of each class beside its defaults."""


def built(word: str, said: dict[str, Any], device: str = "meta") -> tuple[Any, ModelSpec]:
    with torch.device(device):
        network = getattr(diffusers, word)(**said)
    raw = json.loads(network.to_json_string())
    return network, model_from_config(raw, "config.json", word).model


@pytest.mark.parametrize("word", FAMILIES)
def test_parameters_are_those_of_the_class(word: str) -> None:
    for said in SAID[word]:
        network, model = built(word, said)
        assert model.params == sum(weight.numel() for weight in network.parameters()), said


def test_models_of_the_zoo_are_built_from_the_scripts_that_convert_their_weights() -> None:
    for raw in (one["config"] for one in CHECKED if "_class_name" in one["config"]):
        word = raw["_class_name"]
        network, model = built(word, {key: value for key, value in raw.items() if key != "_class_name"})
        assert model.params == sum(weight.numel() for weight in network.parameters()), word


def empty(*sizes: int) -> torch.Tensor:
    return torch.empty(*sizes, device="meta")


def test_flops_are_those_of_a_forward_pass() -> None:
    passes: dict[str, tuple[dict[str, Any], dict[str, Any], int]] = {
        "FluxTransformer2DModel": (
            {"guidance_embeds": True},
            {
                "hidden_states": empty(1, 1024, 64), "encoder_hidden_states": empty(1, 512, 4096),
                "pooled_projections": empty(1, 768), "timestep": empty(1), "guidance": empty(1),
                "img_ids": empty(1024, 3), "txt_ids": empty(512, 3),
            },
            1536,
        ),
        "LatteTransformer3DModel": (
            LATTE,
            {
                "hidden_states": empty(1, 4, 16, 64, 64), "encoder_hidden_states": empty(1, 120, 4096),
                "timestep": empty(1),
            },
            16384,
        ),
        "WanTransformer3DModel": (
            {"num_layers": 2},
            {
                "hidden_states": empty(1, 16, 5, 32, 32), "encoder_hidden_states": empty(1, 512, 4096),
                "timestep": empty(1),
            },
            1280,
        ),
    }  # fmt: skip
    for word, (said, inputs, length) in passes.items():
        network, model = built(word, said)
        with torch.device("meta"), FlopCounterMode(display=False) as counted:
            network(**inputs)
        assert diffusion_flops(model, float(length)) == 3 * counted.get_total_flops(), word


def kept_bytes(model: ModelSpec, name: str, length: float, samples: int) -> float:
    """Bytes that a block keeps by the record."""
    diffusion, found = model.diffusion, 0.0
    assert diffusion is not None
    for part in model.blocks[name].parts:
        if isinstance(part, CorePart):
            rows = sum(sample_rows(diffusion, length, one) for one in (part.queries, part.keys))
            found += 4 * rows * part.width + 4 * sample_rows(diffusion, length, part.queries) * part.heads
            continue
        rows = sample_rows(diffusion, length, part.rows)
        if isinstance(part, ProductPart):
            found += 2 * rows * part.inputs * part.keeps
        elif part.kind not in NOTHING_KEPT:
            found += (4 if part.fp32 else 2) * rows * part.width
    return samples * found


def saved_bytes(word: str, said: dict[str, Any], inputs: dict[str, torch.Tensor]) -> float:
    """Bytes of the storages that autograd saves in a forward pass, weights left out.

    A root-mean-square norm that processors run in parts keeps two copies in fp32 and its roots; one kernel
    of a GPU keeps its input.
    """
    network = getattr(diffusers, word)(**said).to(torch.bfloat16)
    known = {weight.untyped_storage().data_ptr() for weight in network.parameters()}
    storages: dict[int, torch.UntypedStorage] = {}
    norms = [one for one in network.modules() if isinstance(one, torch.nn.RMSNorm)]
    parts = 0.0

    def seen(_: Any, arguments: Any, result: torch.Tensor) -> None:
        nonlocal parts
        rows = result.numel() / result.shape[-1]
        parts += 2 * 4 * result.numel() - 2 * result.numel() + 4 * rows

    for norm in norms:
        norm.register_forward_hook(seen)

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in known:
            storages[storage.data_ptr()] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        network(**inputs)
    return float(sum(storage.nbytes() for storage in storages.values())) - parts


SMALL = {"num_attention_heads": 4, "attention_head_dim": 32}
TEXT = 64


def random(*sizes: int) -> torch.Tensor:
    return torch.randn(*sizes, dtype=torch.bfloat16)


def test_a_block_keeps_what_autograd_saves() -> None:
    """The difference that one more block makes, within 2%: sums of norms and scales are not counted."""
    video = {"hidden_states": random(2, 16, 1, 32, 32), "timestep": random(2)}
    text = {"encoder_hidden_states": random(2, TEXT, 4096)}
    flux = {
        "hidden_states": random(2, 256, 64), "pooled_projections": random(2, 768), "timestep": random(2),
        "img_ids": torch.zeros(256, 3), "txt_ids": torch.zeros(TEXT, 3),
    }  # fmt: skip
    runs: list[tuple[str, dict[str, Any], dict[str, int], dict[str, Any], str, float]] = [
        ("FluxTransformer2DModel", {"axes_dims_rope": (8, 12, 12), "num_single_layers": 1}, {"num_layers": 1},
         flux, "double", 320.0),
        ("FluxTransformer2DModel", {"axes_dims_rope": (8, 12, 12), "num_layers": 1}, {"num_single_layers": 1},
         flux, "single", 320.0),
        ("WanTransformer3DModel", {"ffn_dim": 512}, {"num_layers": 1}, video, "block", 256.0),
        ("CogVideoXTransformer3DModel",
         {"max_text_seq_length": TEXT, "sample_width": 32, "sample_height": 32, "sample_frames": 1},
         {"num_layers": 1}, video | {"hidden_states": random(2, 1, 16, 32, 32)}, "block", 320.0),
    ]  # fmt: skip
    for word, said, one, inputs, name, length in runs:
        more = {key: value + 1 for key, value in one.items()}
        grown = [saved_bytes(word, SMALL | said | count, inputs | text) for count in (one, more)]
        raw = {"_class_name": word, **SMALL, **said, **one}
        model = model_from_config(json.loads(json.dumps(raw)), "config.json", word).model
        assert model.diffusion is not None
        model = model.model_copy(
            update={"diffusion": model.diffusion.model_copy(update={"text_tokens": TEXT})}
        )
        assert kept_bytes(model, name, length, 2) == pytest.approx(grown[1] - grown[0], rel=0.02), (
            word,
            name,
        )
