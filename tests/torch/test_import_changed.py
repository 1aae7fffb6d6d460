"""No key that changes a model's parameters is passed over: with each one changed library and import agree.

A small config of each type, and one key of its class at a time doubled, turned over, set to nothing or left
out: the import has the parameters that the library's own code makes of it, or refuses the config.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from planner.errors import InputError
from planner.inputs.hf_config import model_from_config
from tests.helpers import ROOT
from tests.torch.meta import shapes_alone

pytestmark = pytest.mark.torch

transformers = pytest.importorskip("transformers")
auto = pytest.importorskip("transformers.models.auto.modeling_auto")

CAUSAL, MASKED = auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES
CASES = json.loads((ROOT / "tests" / "unit" / "data" / "hf_small_configs.json").read_text())["cases"]
SMALL = {one["config"]["model_type"]: one["config"] for one in reversed(CASES)}
KINDS = sorted(kind for kind in SMALL if kind in {*CAUSAL, *MASKED} - {"longcat_flash"})

APART = {
    ("deepseek_v2", "moe_layer_freq"): "the code beside the weights reads it, transformers does not",
    (
        "hy_v3",
        "first_k_dense_replace",
    ): "transformers reads mlp_layer_types, whose default is one dense layer",
    ("kimi_linear", "tie_word_embeddings"): "its class ties nothing",
    ("kimi_linear", "num_experts"): "of none its class keeps routers",
    ("lfm2_moe", "num_experts"): "of none its class keeps routers",
    ("minimax", "num_local_experts"): "of none its class keeps routers",
    ("nemotron_h", "tie_word_embeddings"): "its class ties nothing",
    **{
        (
            "mimo_v2_flash",
            key,
        ): "transformers 5.24 gives both kinds of layers one shape, the published code two"
        for key in (
            *(
                "moe_layer_freq",
                "add_full_attention_sink_bias",
                "add_swa_attention_sink_bias",
                "head_dim",
                "v_head_dim",
            ),
            *("num_attention_heads", "num_key_value_heads", "swa_head_dim", "swa_num_attention_heads"),
            *("swa_num_key_value_heads", "swa_v_head_dim"),
        )
    },
}
"""Keys of a type on which the two differ, and why."""

BALANCE = ("e_score_correction_bias", "expert_bias")
"""Ends of the names of what balances experts, a parameter in some types and none of the model's."""


def changed(value: Any) -> tuple[Any, ...]:
    """Return other values of a switch or a number: turned, twice as much, nothing; none of anything else."""
    if isinstance(value, bool):
        return (not value,)
    if not isinstance(value, int) or not 0 <= value < 200_000:
        return ()
    return (2 * value, 0) if value else (1,)


def counted(config: Any, kind: str) -> int:
    maker = transformers.AutoModelForCausalLM if kind in CAUSAL else transformers.AutoModelForMaskedLM
    with shapes_alone():
        model = maker.from_config(config)
    return sum(one.numel() for name, one in model.named_parameters() if not name.endswith(BALANCE))


@pytest.mark.parametrize("kind", KINDS)
def test_no_key_that_changes_parameters_is_passed_over(kind: str) -> None:
    said = {key: value for key, value in SMALL[kind].items() if key != "model_type"}
    try:
        config = transformers.AutoConfig.for_model(kind, **said)
        counted(config, kind)
    except Exception as error:
        pytest.skip(f"transformers makes no {kind} of it: {str(error)[:100]}")
    wrong = []
    for key, value in json.loads(config.to_json_string(use_diff=False)).items():
        if key.endswith("token_id") or (kind, key) in APART:
            continue
        for other in changed(value):
            if fault := apart(kind, said | {key: other}):
                wrong.append(f"{key} {other}: {fault}")
    for whole in (said,) if kind == "mimo_v2_flash" else (said, twice(said)):
        left_out = {key: {one: whole[one] for one in whole if one != key} for key in whole}
        for key, left in left_out.items():
            if (kind, key) not in APART and (fault := apart(kind, left)):
                wrong.append(f"without {key}: {fault}")
    assert not wrong


def twice(said: dict[str, Any]) -> dict[str, Any]:
    """Return a config with twice the heads, which are not the class's default of another key by chance."""
    heads = [key for key in ("num_attention_heads", "n_head", "num_heads") if isinstance(said.get(key), int)]
    return said | {key: 2 * said[key] for key in heads}


def apart(kind: str, said: dict[str, Any]) -> str:
    """Return how import and library differ on a config, nothing where one of them refuses it."""
    try:
        params = counted(transformers.AutoConfig.for_model(kind, **said), kind)
    except Exception:
        return ""
    try:
        found = model_from_config(said | {"model_type": kind}, "config.json", kind).model.params
    except InputError:
        return ""
    return "" if found == params else f"{found:,}, the library {params:,}"
