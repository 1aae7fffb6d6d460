"""Diffusion transformers: import, FLOPs, memory, splits, switched axes, and what no file says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from planner.cost.case import Case, case_of
from planner.cost.estimate import estimate
from planner.cost.flops import job_flops
from planner.cost.kinds import unmeasured_kinds
from planner.cost.layer.block_cost import priced_layer
from planner.cost.layer.block_parts import diffusion_flops, sample_rows
from planner.cost.layer.operators import Pricer, total
from planner.cost.legal import all_rules
from planner.errors import InputError, UnsupportedPlan
from planner.inputs.block_parts import CorePart, PointwisePart
from planner.inputs.build import build
from planner.inputs.diffusers import FAMILIES
from planner.inputs.diffusers._basic import attended
from planner.inputs.diffusers.family import (
    feed_forward,
    gated,
    last_parts,
    model_record,
    modulated,
    perceptron,
    pointwise,
    product,
    table,
)
from planner.inputs.hf_config import model_from_config, read_hf_config
from planner.inputs.load import load_model
from planner.inputs.load_hardware import load_hardware
from planner.inputs.model import ModelSpec
from planner.inputs.model_yaml import model_yaml
from planner.inputs.workload import Workload
from planner.launchers import Card, Target, launch_files, launchers
from planner.plan import Plan
from planner.profile.check_shapes import checked_case
from planner.report.model_facts import model_kind, part_rows
from planner.rules import violations
from planner.runtimes import runtimes
from planner.runtimes.family import Job
from planner.search.optimise import search
from planner.search.request import SearchRequest
from tests.cases import every
from tests.cli.command import planner

SD35 = {"num_layers": 24, "num_attention_heads": 24, "caption_projection_dim": 1536, "qk_norm": "rms_norm"}
LATTE = {
    "in_channels": 4, "out_channels": 8, "patch_size": 2, "attention_head_dim": 72, "num_layers": 28,
    "cross_attention_dim": 1152, "attention_bias": True, "activation_fn": "gelu-approximate",
    "norm_type": "ada_norm_single", "norm_elementwise_affine": False, "caption_channels": 4096,
}  # fmt: skip
FACTS: dict[str, tuple[str, dict[str, Any], int, int, int]] = {
    "flux.1-dev": (
        "FluxTransformer2DModel", {"guidance_embeds": True}, 11_901_408_320, 4608, 74_384_653_418_496,
    ),
    "sd3.5-medium": (
        "SD3Transformer2DModel", SD35 | {"dual_attention_layers": list(range(13))}, 2_243_171_520,
        4096 + 333, 11_249_573_707_776,
    ),
    "sd3.5-large": (
        "SD3Transformer2DModel",
        SD35 | {"num_layers": 38, "num_attention_heads": 38, "caption_projection_dim": 2432},
        8_056_627_520, 0, 0,
    ),
    "pixart-alpha": ("PixArtTransformer2DModel", {"caption_channels": 4096}, 611_349_152, 0, 0),
    "dit-xl-2": ("DiTTransformer2DModel", {"out_channels": 8}, 749_826_464, 0, 0),
    "latte-1": ("LatteTransformer3DModel", LATTE, 1_057_246_880, 16384, 34_399_024_349_184),
    "wan2.1-14b": ("WanTransformer3DModel", {}, 14_288_491_584, 0, 0),
    "wan2.1-1.3b": (
        "WanTransformer3DModel", {"num_attention_heads": 12, "ffn_dim": 8960, "num_layers": 30},
        1_418_996_800, 1280, 3_778_229_305_344,
    ),
    "hunyuan-video": (
        "HunyuanVideoTransformer3DModel", {}, 12_821_012_544, 1280 + 256, 22_745_063_620_608,
    ),
    "cogvideox-2b": (
        "CogVideoXTransformer3DModel", {}, 1_693_783_872, 226 + 17550, 119_997_311_418_368,
    ),
    "cogvideox1.5-5b-i2v": (
        "CogVideoXTransformer3DModel",
        {
            "num_attention_heads": 48, "num_layers": 42, "use_rotary_positional_embeddings": True,
            "ofs_embed_dim": 512, "patch_size_t": 2, "in_channels": 32, "patch_bias": False,
        },
        5_571_594_880, 0, 0,
    ),
}  # fmt: skip
"""Class, what its config says beside defaults, parameters on meta tensors, a length, and FLOPs of its forward
pass there as PyTorch's FlopCounterMode counts them: all of diffusers 0.42.1 and torch 2.13."""


def config(name: str) -> dict[str, Any]:
    word, said, *_ = FACTS[name]
    return {"_class_name": word, "_diffusers_version": "0.42.1", **said}


def model(name: str, **changed: Any) -> ModelSpec:
    return model_from_config(config(name) | changed, "config.json", name).model


@every("name", FACTS)
def test_parameters_and_flops_are_those_of_the_library(name: str) -> None:
    _, _, params, length, flops = FACTS[name]
    found = model(name)
    assert found.params == params == sum(row["params"] for row in part_rows(found))
    assert not length or diffusion_flops(found, float(length)) == 3 * flops


def test_a_model_is_written_and_read_back(tmp_path: Path) -> None:
    """Every family survives its YAML; a pipeline's folder gives the transformer, and its own name."""
    assert {FACTS[name][0] for name in FACTS} == set(FAMILIES)
    for name in FACTS:
        file = tmp_path / f"{name}.yaml"
        file.write_text(model_yaml(model(name)), "utf-8")
        assert load_model(str(file)) == model(name)
    folder = tmp_path / "FLUX.1-dev" / "transformer"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text('{"_class_name": "FluxTransformer2DModel"}', "utf-8")
    assert read_hf_config(folder.parent).model.name == read_hf_config(folder).model.name == "FLUX.1-dev"


@every(
    ("name", "changed", "told"),
    [
        ("flux.1-dev", {"_class_name": "FluxTransformer3DModel"}, "nearest: FluxTransformer2DModel"),
        ("flux.1-dev", {"num_experts": 8}, "num_experts: found 8"),
        ("flux.1-dev", {"num_layers": "many"}, "num_layers: found 'many'"),
        ("wan2.1-14b", {"image_dim": 1280}, "image_dim: found 1280; expected None"),
        ("sd3.5-large", {"qk_norm": "layer_norm"}, "qk_norm: found layer_norm"),
        ("sd3.5-large", {"caption_projection_dim": 4096}, "expected 2432"),
        ("hunyuan-video", {"image_condition_type": "token_replace"}, "null or latent_concat"),
        ("hunyuan-video", {"mlp_ratio": -1}, "mlp_ratio: found -1"),
        ("pixart-alpha", {"attention_type": "gated"}, "attention_type: found gated"),
        ("pixart-alpha", {"activation_fn": "relu"}, "activation_fn: found relu"),
        ("latte-1", {"caption_channels": None}, "caption_channels: found nothing"),
    ],
)
def test_what_is_not_expressed_is_refused(name: str, changed: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError) as caught:
        model(name, **changed)
    assert told in str(caught.value)


@every(
    ("changed", "told"),
    [
        ({"vocab": 32000}, "diffusion and no vocabulary"),
        ({"diffusion": None}, "vocab: found 0; expected more than 0"),
        ({"blocks": {"double": {"norms": 2, "parts": [table(1)]}}}, "parts alone"),
    ],
)
def test_a_record_is_a_language_model_or_a_diffusion_transformer(changed: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=told):
        build(ModelSpec, model("flux.1-dev").model_dump(exclude_defaults=True) | changed, "x")


def job(name: str | ModelSpec, seq_len: int, gpus: int = 8, **work: Any) -> Job:
    known = model(name) if isinstance(name, str) else name
    return Job(
        known, load_hardware("dgx-h100"), gpus, Workload(seq_len=seq_len, **{"global_batch": 8} | work)
    )


def plan(cp: int = 1, method: str = "all-to-all", dp: int = 8, **axes: Any) -> Plan:
    degrees = {"cp": float(cp), "dp": float(dp // cp), "zero": 3, "zero_shards": float(dp)} | axes
    return Plan(cp_method=method, micro_batch=1.0, num_microbatches=8.0 / (dp // cp), **degrees)


def case(name: str | ModelSpec, seq_len: int, chosen: Plan, gpus: int = 8) -> Case:
    asked = job(name, seq_len, gpus)
    return case_of(chosen, asked, runtimes()["fsdp"].for_model(asked.model))


def broken(name: str, seq_len: int, chosen: Plan, runtime: str = "fsdp") -> set[str]:
    asked = job(name, seq_len)
    own = runtimes()[runtime].for_model(asked.model)
    return {one.rule for one in violations(all_rules(chosen, case_of(chosen, asked, own)))}


def test_rules_of_a_diffusion_transformer() -> None:
    assert not broken("flux.1-dev", 4608, plan())
    assert not broken("flux.1-dev", 4608, plan(8))
    assert not broken("latte-1", 16384, plan(8, "dsp"))
    assert "context-splits-heads" in broken("wan2.1-14b", 32768, plan(16, dp=16))
    assert "axes-to-switch" in broken("flux.1-dev", 4608, plan(8, "dsp"))
    assert "axes-are-shared" in broken("latte-1", 16384, plan(8, "ring"))
    assert "axes-divide" in broken("latte-1", 16384, plan(32, "dsp", dp=32))
    assert "frames-are-whole" in broken("latte-1", 16388, plan())
    assert "latents-beside-text" in broken("flux.1-dev", 512, plan())
    assert "text-divides" in broken("cogvideox-2b", 17776, plan(8))
    assert "diffusion-layers-whole" in broken("flux.1-dev", 4608, plan(tp=2.0))
    assert "diffusion-unpiped" in broken("flux.1-dev", 4608, plan(pp=2.0))
    for name in ("megatron-lm", "megatron-bridge", "deepspeed", "nanotron"):
        assert "trains-diffusion" in broken("flux.1-dev", 4608, plan(), name)


def test_work_is_shared_by_every_method() -> None:
    """A layer's products and attention take an eighth of the FLOPs on each of eight ranks that share it."""
    for name, seq_len in (("flux.1-dev", 4608), ("latte-1", 16384), ("wan2.1-14b", 32768)):
        known = model(name)
        for block in known.blocks:
            alone = Pricer(case(name, seq_len, plan()), plan())
            rows = {"sample": 1.0, "text": float(known.diffusion.text_tokens if known.diffusion else 0)}
            whole = total(priced_layer(alone, block).operators, "flops")
            twice = known.diffusion is not None and known.diffusion.text == "cross"
            kept = sum(
                2.0 * rows[part.rows] * part.inputs * part.outputs
                for part in known.blocks[block].parts
                if part.kind == "product" and (part.rows == "sample" or (twice and part.rows == "text"))
            )
            for method in ("dsp", "all-to-all") if name == "latte-1" else ("ring", "all-to-all"):
                shared = Pricer(case(name, seq_len, plan(8, method)), plan(8, method))
                found = total(priced_layer(shared, block).operators, "flops")
                assert found == pytest.approx((whole - kept) / 8 + kept)


def stdit() -> ModelSpec:
    """Return Open-Sora's STDiT-XL/2: attention in each frame, then along time, then to text (80 frames)."""
    hidden, heads = 1152, (16, 72)
    block = [table(6 * hidden), *modulated("latents", hidden)]
    for axis in ("space", "time"):
        block += [*attended(("latents", "latents"), heads, hidden, True, axis), *gated("latents", hidden)]
    block += [*attended(("latents", "text"), heads, hidden, True), pointwise("add", "latents", hidden)]
    block += [*modulated("latents", hidden), *feed_forward("latents", hidden, 4 * hidden)]
    block += gated("latents", hidden)
    first = [product("latents", 16, hidden), *perceptron("sample", 256, hidden)]
    first += [product("sample", hidden, 6 * hidden), *perceptron("text", 4096, hidden)]
    ends = {"text": "cross", "text_tokens": 120, "frames": 80, "first": first, "last": last_parts(hidden, 32)}
    return build(ModelSpec, model_record(hidden, {"st": block}, ["st"] * 28, ends) | {"name": "stdit"}, "x")


PRINTED = {"ulysses": 45.0, "dsp": 22.0}
"""Seconds of a sampling on eight H800 by the page of DSP, of 106 on one."""


def test_dynamic_sequence_parallelism_sends_a_quarter() -> None:
    """DSP, arXiv:2403.10266: two switches of M/P where Ulysses takes eight, at least 75% less.

    Its page: 80 frames of 512 x 512 in 106 s on one H800, 45 s on eight by Ulysses, 22 s by DSP. Priced
    forward passes have the order, not the ratios: 4.6 and 6.3 times as fast as one where they print 2.4 and
    4.8. Their times are of a whole sampling: with 6 s that no rank shares the switches' 22 s come out;
    Ulysses' 45 would need 28, so that its messages were slower there than their bytes.
    """
    hardware = load_hardware("hgx-h800")
    seconds, sent = {}, {}
    for ranks, method in ((1, "all-to-all"), (8, "all-to-all"), (8, "dsp")):
        chosen = plan(ranks, method, dp=ranks)
        asked = replace(job(stdit(), 80 * 1024, ranks), hardware=hardware)
        pricer = Pricer(case_of(chosen, asked, runtimes()["fsdp"].for_model(asked.model)), chosen)
        layer = priced_layer(pricer, "st")
        seconds[ranks, method] = float(total(layer.operators, "forward") + layer.exchanges.cp.forward)
        sent[ranks, method] = float(layer.exchanges.cp.forward_sent)
    assert sent[8, "dsp"] == sent[8, "all-to-all"] / 4 == 2 * (7 / 8) * 2 * 1152 * 80 * 1024 / 8
    assert sent[1, "all-to-all"] == 0
    one, ulysses, dsp = seconds.values()
    assert one / ulysses > 106 / 45
    assert one / dsp > 106 / 22
    assert 1 < ulysses / dsp < 45 / 22
    shared = {name: part / one for name, part in (("ulysses", ulysses), ("dsp", dsp))}
    alone = {name: (told - 106 * shared[name]) / (1 - shared[name]) for name, told in PRINTED.items()}
    assert alone["dsp"] == pytest.approx(6.1, abs=0.5)
    assert alone["ulysses"] == pytest.approx(28.0, abs=1.0)


def test_flops_of_a_job_are_those_of_its_samples() -> None:
    asked = job("flux.1-dev", 4608, global_batch=16)
    assert job_flops(asked) == 16 * 3 * FACTS["flux.1-dev"][4]


def test_memory_of_a_layer_is_what_autograd_keeps() -> None:
    """A block of two streams by hand: a token keeps 11 widths, 2 inner ones, 4 of attention, and its sums."""
    pricer = Pricer(case("flux.1-dev", 4608, plan()), plan())
    operators = priced_layer(pricer, "double").operators
    hidden, tokens = 3072, 4608.0
    by_hand = tokens * 2 * hidden * (11 + 2 * 4 + 4) + 4 * tokens * 24 + 2 * 2 * hidden
    assert float(total(operators, "saved") + total(operators, "kept")) == pytest.approx(by_hand)


def test_a_search_and_what_it_tells() -> None:
    asked = job("latte-1", 16384, 16, global_batch=64)
    request = SearchRequest(asked.model, (asked.hardware,), (16,), asked.workload, (runtimes()["fsdp"],))
    found = search(request).plans
    assert {one.plan.cp_method for one in found if one.plan.cp > 1} == {"dsp"}
    best = found[0]
    assert best.step == pytest.approx(estimate(best.plan, best.job, best.runtime).step)
    assert unmeasured_kinds(best.plan, best.job, best.runtime) == ("a diffusion transformer",)
    with pytest.raises(UnsupportedPlan, match="no files start latte-1"):
        launch_files(best.plan, best.job, Target(best.runtime, launchers()["torchrun"], "1.15.0"), Card())


def test_what_has_no_answer_says_so() -> None:
    asked = job("flux.1-dev", 4608)
    answer = estimate(plan(), asked, runtimes()["fsdp"].for_model(asked.model))
    with pytest.raises(InputError, match="its blocks alone have benches"):
        checked_case(answer)


def test_words_of_a_model() -> None:
    assert model_kind(model("flux.1-dev")) == "diffusion joint-text"
    assert model_kind(model("latte-1")) == "diffusion cross-text space-time"
    assert model_kind(model("dit-xl-2")) == "diffusion"
    parts = model("wan2.1-14b").blocks["block"].parts
    assert sum(isinstance(part, CorePart) for part in parts) == 2
    assert {part.kind for part in parts if isinstance(part, PointwisePart) and part.fp32} == {
        "norm",
        "modulate",
        "gate",
    }
    latte = model("latte-1").diffusion
    assert latte is not None
    assert sample_rows(latte, 16384.0, "frame-text") == 120 * 16


SCHNELL = {"_class_name": "FluxTransformer2DModel"}


def flux_job(**work: Any) -> Job:
    fields = {"seq_len": 4608, "global_batch": 256} | work
    known = model_from_config(SCHNELL, "config.json", "flux").model
    return Job(known, load_hardware("dgx-h100"), 64, Workload(**fields))


FLUX_PLAN = Plan(
    dp=64.0, zero=3, zero_shards=8.0, micro_batch=4.0, num_microbatches=1.0, recompute="full",
    cp_method="all-gather",
)  # fmt: skip


def test_torchtitan_trains_its_own_flux() -> None:
    titan = runtimes()["torchtitan"].for_model(flux_job().model)

    def told(chosen: Plan, asked: Job) -> set[str]:
        return {one.rule for one in violations(all_rules(chosen, case_of(chosen, asked, titan)))}

    assert not told(FLUX_PLAN, flux_job())
    assert told(FLUX_PLAN, replace(flux_job(), model=model("flux.1-dev"))) == {"model-in-torchtitan"}
    assert told(FLUX_PLAN, flux_job(seq_len=4609)) == {"images-are-square"}
    assert told(replace(FLUX_PLAN, recompute="selective"), flux_job()) == {"flux-checkpoints-all"}
    assert told(replace(FLUX_PLAN, zero=2), flux_job()) == {"flux-is-sharded"}
    assert told(replace(FLUX_PLAN, num_microbatches=2.0), flux_job(global_batch=512)) == {"flux-in-one-pass"}
    assert "cp-method-offered" in told(replace(FLUX_PLAN, cp=2.0, dp=32.0, cp_method="ring"), flux_job())


def test_flux_by_hand() -> None:
    """FLUX.1-dev (black-forest-labs/flux, ``model.py``, ``layers.py``): h 3,072, a square product h (h + 1).

    A stream of a double block: six scales, queries, keys and values, the result, and a feed-forward of four;
    a single block: three scales, queries, keys, values and four to go in, five to come out.
    """
    hidden, norms = 3072, 2 * 128
    square = hidden * (hidden + 1)
    double = 2 * ((6 + 3 + 1 + 4) * square + hidden * (4 * hidden + 1) + norms)
    single = (3 + 3 + 4) * square + hidden * (5 * hidden + 1) + norms
    enter = (64 + 1) * hidden + (4096 + 1) * hidden
    told = 2 * (256 + 1) * hidden + (768 + 1) * hidden + 3 * square
    made = 2 * square + (hidden + 1) * 64
    assert load_model("flux.1-dev").params == 19 * double + 38 * single + enter + told + made
    assert load_model("flux.1-schnell").params == load_model("flux.1-dev").params - 257 * hidden - square


def test_files_of_flux_are_read_back(tmp_path: Path) -> None:
    asked = flux_job()
    titan = runtimes()["torchtitan"].for_model(asked.model)
    files = launch_files(FLUX_PLAN, asked, Target(titan, launchers()["torchrun"], titan.versions[0]), Card())
    for name, text in files.items():
        (tmp_path / name).write_text(text, "utf-8")
    assert "'image': 1024" in files["titan_plan.py"]
    assert "activation-checkpoint:full" in files["train.sh"]
    assert "DATA_PATH AUTOENCODER_PATH OUTPUT_DIR" in files["train.sh"]
    told = planner(
        "estimate", "--from", str(tmp_path / "train.sh"), "--hardware", "dgx-h100", "--format", "json"
    )
    assert told.code == 0, told.err
    assert told.json["step_time_s"] == pytest.approx(float(estimate(FLUX_PLAN, asked, titan).step), rel=1e-6)
    with pytest.raises(UnsupportedPlan, match="no files start flux on release"):
        launch_files(FLUX_PLAN, asked, Target(titan, launchers()["torchrun"], "0.2.2"), Card())
