"""Adapters stand beside the linear layers that a model's own code has, or are refused by name."""

from __future__ import annotations

from planner.inputs.load import load_model
from planner.inputs.workload import Target, Workload
from planner.runtimes.hub.config import adapted_rule, adapter_settings
from planner.runtimes.imports.sheet import Sheet
from planner.runtimes.libraries.reading.adapters import say_targets
from tests.cases import every

NAMED: dict[str, dict[Target, list[str]]] = {
    "bloom-7b1": {"qkv": ["query_key_value"], "proj": ["self_attention.dense"], "fc2": ["dense_4h_to_h"]},
    "falcon-7b": {"qkv": ["query_key_value"], "fc1": ["dense_h_to_4h"]},
    "chatglm3-6b": {"qkv": ["query_key_value"], "proj": ["dense"]},
    "phi3-mini-4k": {"qkv": ["qkv_proj"], "fc1": ["gate_up_proj"]},
    "starcoder2-7b": {"proj": ["o_proj"], "fc1": ["c_fc"], "fc2": ["c_proj"]},
    "starcoderbase-1b": {"proj": ["attn.c_proj"], "fc1": ["c_fc"]},
    "internlm2-7b": {"qkv": ["wqkv"], "fc1": ["w1", "w3"]},
    "deepseek-v2-lite": {
        "qkv": ["q_proj", "q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj"],
        "proj": ["o_proj"],
    },
    "gemma2-9b": {"qkv": ["q_proj", "k_proj", "v_proj"], "fc2": ["down_proj"]},
    "pythia-1b": {"qkv": ["query_key_value"]},
}


def lora(*targets: Target) -> Workload:
    return Workload(seq_len=1024, global_batch=8, method="lora", lora_targets=targets)


@every("name", NAMED)
def test_layers_have_the_names_of_the_models_own_code(name: str) -> None:
    """Printed by transformers 5.23 for each type, and read in ChatGLM's and InternLM2's own files."""
    model = load_model(name)
    for group, names in NAMED[name].items():
        assert adapter_settings(model, lora(group))["LORA_TARGETS"] == names
        assert adapted_rule(model, lora(group)).holds
        sheet = Sheet("train.sh", {})
        say_targets(sheet, names, "lora_target_modules")
        assert sheet.problems == {}
        assert sheet.options["lora_targets"] == group


def test_groups_that_share_a_name_or_have_none_are_refused() -> None:
    for name in ("qwen-7b", "gpt2"):
        rule = adapted_rule(load_model(name), lora("proj"))
        assert not rule.holds
        assert rule.tell()[0] == f"lora targets proj of {name}"
    own = load_model("llama4-scout").model_copy(update={"name": "mine"})
    assert not adapted_rule(own, lora("qkv")).holds
    assert adapted_rule(own, Workload(seq_len=1024, global_batch=8, method="lora")).holds
