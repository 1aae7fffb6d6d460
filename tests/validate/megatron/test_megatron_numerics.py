"""Megatron-LM derives the positions, norms and router that the model's own record has, field by field.

Needs what `test_megatron_plans` needs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from planner.inputs.model import LatentAttention, ModelSpec
from planner.inputs.numerics import Router
from tests.validate.megatron import cases
from tests.validate.megatron.capture import started
from tests.validate.megatron.test_megatron_plans import megatron, pytestmark, recorder, script  # noqa: F401

MODELS = (
    "llama2-7b", "llama3-8b", "llama3.1-8b", "llama3-70b", "qwen2.5-7b",
    "qwen3-8b", "qwen3-30b-a3b", "mixtral-8x7b", "deepseek-v2", "deepseek-v3", "gpt-oss-120b",
)  # fmt: skip


def wanted(model: ModelSpec) -> dict[str, Any]:
    """Return what the record says, under Megatron-core's names; a field that is not known is left out."""
    own, router = model.numerics, model.numerics.router or Router()
    latent = isinstance(model.blocks[model.layers[0]].mixer, LatentAttention)
    fields = {
        "rotary_base": own.rope_theta,
        "layernorm_epsilon": own.norm_epsilon,
        "init_method_std": own.init_std,
        "normalization": {"rmsnorm": "RMSNorm", "layernorm": "LayerNorm"}[model.norm],
        "untied": not model.tied_embeddings,
    }
    if own.rope_scaling is not None and own.rope_scaling.kind == "llama3":
        fields |= {"llama3_factor": own.rope_scaling.factor}
    if own.rope_scaling is not None and own.rope_scaling.kind == "yarn" and latent:
        fields |= {"rotary_scaling_factor": own.rope_scaling.factor, "mscale": own.rope_scaling.mscale}
        fields |= {"mscale_all_dim": own.rope_scaling.mscale_all_dim, "rope_type": "yarn"}
    if model.expert_kinds:
        fields |= {
            "moe_router_score_function": router.score,
            "moe_router_topk_scaling_factor": router.scale,
            "moe_router_enable_expert_bias": bool(router.expert_bias) if router.score == "sigmoid" else None,
            "moe_router_num_groups": router.groups if router.grouped else None,
            "moe_router_group_topk": router.top_groups if router.grouped else None,
            "moe_aux_loss_coeff": router.aux_loss,
        }
    return {name: value for name, value in fields.items() if value is not None}


@pytest.mark.parametrize("name", MODELS)
def test_the_derived_configuration_is_the_models(
    name: str,
    megatron: Any,  # noqa: F811
    recorder: Path,  # noqa: F811
) -> None:
    job = cases.job(name, 8, seq_len=2048, global_batch=8)
    start = started(script(recorder, job, cases.plan(8, 8)), recorder)
    verdict = megatron.judge(start, 8, 9.0, build=False)
    assert not verdict.error
    found = verdict.derived["numerics"]
    assert {field: found[field] for field in wanted(job.model)} == wanted(job.model)
