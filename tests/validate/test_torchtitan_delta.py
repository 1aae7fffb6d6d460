"""torchtitan's own code takes the files of Qwen3.5 as they are meant: degrees, stages, numbers, model."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from planner.cost.case import case_of
from planner.cost.layer.blocks import block_operators
from planner.cost.layer.encoders import encoder_case, encoder_plan
from planner.cost.layer.operators import Pricer
from planner.inputs.hf_config import model_from_config
from planner.inputs.load import load_model
from planner.inputs.load_hardware import load_hardware
from planner.inputs.workload import Workload
from planner.plan import Plan
from planner.runtimes.family import Job
from planner.runtimes.torchtitan import ENTRY
from planner.runtimes.torchtitan.choice import TitanChoice
from planner.runtimes.torchtitan.current import module_text
from tests.helpers import ROOT
from tests.validate.ask import PYTHON
from tests.validate.numerics import titan_says
from tests.validate.random_plans import stage_params
from tests.validate.titan_plans import taken

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(not os.environ.get("TORCHTITAN"), reason="TORCHTITAN names no checkout of torchtitan"),
    pytest.mark.needs("tyro, fla", "no interpreter with tyro and flash-linear-attention in VALIDATE_PYTHON"),
]

WHOLE = Plan(dp=64.0, zero=3, zero_shards=32.0, micro_batch=1.0, num_microbatches=4.0, recompute="full")
SPLIT = replace(WHOLE, tp=2.0, dp=32.0, num_microbatches=8.0, sequence_parallel=True, recompute="none")
PIPED = replace(
    WHOLE, pp=2.0, vpp=2.0, dp=32.0, zero_shards=8.0, num_microbatches=8.0, zero=2,
    schedule="interleaved-1f1b",
)  # fmt: skip
ROTARY = ("theta", "scaling")
SEEING = ("qwen3.5-vl-9b", "qwen3.5-vl-122b-a10b")


@pytest.mark.parametrize(
    "name", ["qwen3.5-2b", "qwen3.5-27b", "qwen3.5-35b-a3b", "qwen3-next-80b-a3b", *SEEING]
)
def test_plans_of_gated_delta_nets_are_taken_as_meant(tmp_path: Path, name: str) -> None:
    model = ENTRY.trained(load_model(name))
    runtime = ENTRY.for_model(model)
    sparse = bool(model.expert_kinds)
    plans = [WHOLE, replace(SPLIT, etp=2.0 if sparse else 1.0)]
    plans += [] if model.tied_embeddings else [PIPED]
    plans += [replace(WHOLE, ep=8.0), replace(PIPED, ep=4.0)] if sparse else []
    for verdict in taken(runtime, model, plans, tmp_path):
        plan, derived = verdict.case.plan, verdict.answer["derived"]
        assert derived["tied"] == model.tied_embeddings
        for layer, found in zip(model.layers, derived["numerics"], strict=True):
            wanted, attention = titan_says(model, layer), model.blocks[layer].attention
            if attention is None:
                wanted = {key: value for key, value in wanted.items() if key not in ROTARY}
            else:
                wanted |= {"rope": "MRoPE.Config", "turned": attention.qk_head_dim // 4}
            assert {key: found[key] for key in wanted} == wanted
        if plan.pp > 1:
            assert derived["stage_params"] == stage_params(plan, model)


TOKENS = 256
NARROW = {
    "hidden_size": 1280, "num_hidden_layers": 4, "num_attention_heads": 6, "num_key_value_heads": 1,
    "head_dim": 256, "vocab_size": 512, "intermediate_size": 4352, "linear_num_key_heads": 4,
    "linear_num_value_heads": 12, "linear_key_head_dim": 128, "linear_value_head_dim": 128,
    "rope_parameters": {"rope_type": "default", "rope_theta": 1e7, "partial_rotary_factor": 0.25},
}  # fmt: skip
FED = {
    "qwen3_5_text": {},
    "qwen3_5_moe_text": {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 512,
                         "shared_expert_intermediate_size": 512},
}  # fmt: skip


def test_layers_keep_what_is_priced(tmp_path: Path) -> None:
    """Nothing is compiled there: each kernel's own tensors. Gates, which are not kept, are priced."""
    one, priced = Plan(dp=1.0, zero=3, zero_shards=1.0), []
    for kind, sizes in FED.items():
        model = model_from_config(NARROW | sizes | {"model_type": kind}, "config.json", kind).model
        job = Job(model, load_hardware("dgx-h100"), 1, Workload(seq_len=TOKENS, global_batch=1))
        (tmp_path / kind).mkdir()
        text = module_text(one, job, TitanChoice(compiled=False, loss_chunks=8))
        (tmp_path / kind / "titan_plan.py").write_text(text)
        pricer = Pricer(case_of(one, job, ENTRY.for_model(model)), one)
        layers = (block_operators(pricer, block) for block in model.blocks.values())
        priced.append([sum(float(part.kept + part.saved) for part in layer) for layer in layers])
    done = subprocess.run(
        [PYTHON, ROOT / "tests/validate/check_titan_kept.py"],
        input="".join(f"{tmp_path / kind} {TOKENS}\n" for kind in FED),
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    found = [json.loads(line) for line in done.stdout.splitlines()]
    for (linear, full), answer in zip(priced, found, strict=True):
        assert linear / answer["linear"] == pytest.approx(1.0, abs=0.015)
        assert full / answer["full"] == pytest.approx(1.025, abs=0.01)


def test_layers_of_the_encoder_keep_what_is_priced(tmp_path: Path) -> None:
    """Of Qwen3.5-0.8B's, for one image: to the byte."""
    one, model = Plan(dp=1.0, zero=3, zero_shards=1.0), load_model("qwen3.5-vl-0.8b")
    job = Job(model, load_hardware("dgx-h100"), 1, Workload(seq_len=512, global_batch=1))
    text = module_text(one, job, TitanChoice(compiled=False, loss_chunks=8))
    (tmp_path / "titan_plan.py").write_text(text)
    pricer = Pricer(case_of(one, job, ENTRY.for_model(model)), one)
    own = Pricer(encoder_case(pricer.case), encoder_plan(pricer))
    assert model.encoder is not None
    layer = block_operators(own, model.encoder.blocks[model.encoder.layers[0]])
    done = subprocess.run(
        [PYTHON, ROOT / "tests/validate/check_titan_kept.py"],
        input=f"{tmp_path} 512\n", capture_output=True, text=True, check=True,
    )  # fmt: skip
    kept = json.loads(done.stdout.splitlines()[-1])["vision"]
    assert sum(float(part.kept + part.saved) for part in layer) == kept
