"""From a plan to Megatron-Bridge's config: the file is run with stand-ins that record each field."""

from __future__ import annotations

import sys
import types
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from planner.plan import Plan
from planner.rules import violations
from planner.runtimes.family import GROWING_SEGMENTS, Job
from planner.runtimes.megatron_bridge import ENTRY
from planner.runtimes.megatron_bridge.adapters import adapter_width_rule
from planner.runtimes.settings import NO_CHANGES
from tests.cases import every
from tests.validate.megatron import cases


class Recorded(dict[str, Any]):
    """A section as its keyword arguments, with attribute access."""

    __getattr__ = dict.__getitem__
    __setattr__ = dict.__setitem__


def layers_by_frequency(*_: object, **__: object) -> None:
    """Stand in for Megatron-core's function, which is only named."""


def _stand_ins() -> dict[str, types.ModuleType]:
    names = ("models.gpt_provider", "models.mla_provider", "peft.lora", "training.comm_overlap")
    names = (*names, "training.config")
    modules = {
        f"megatron.bridge.{name}": types.ModuleType(name) for name in (*names, "training.mixed_precision")
    }
    for module in modules.values():
        module.__getattr__ = lambda kind: lambda **fields: Recorded(fields, kind=kind)  # type: ignore[method-assign]
    precision = modules["megatron.bridge.training.mixed_precision"]
    precision.get_mixed_precision_config = lambda name: Recorded(name=name)  # type: ignore[attr-defined]
    torch = types.ModuleType("torch")
    torch.float32, torch.bfloat16, torch.float16, torch.uint8 = "fp32", "bf16", "fp16", "fp8"  # type: ignore[attr-defined]
    torch.nn = types.SimpleNamespace(functional=types.SimpleNamespace(silu="silu", gelu="gelu"))  # type: ignore[attr-defined]
    specs = types.ModuleType("megatron.core.models.gpt.gpt_layer_specs")
    specs.get_gpt_decoder_block_spec = layers_by_frequency  # type: ignore[attr-defined]
    modules[specs.__name__] = specs
    fused = types.ModuleType("megatron.core.fusions.fused_bias_geglu")
    fused.quick_gelu = "quick_gelu"  # type: ignore[attr-defined]
    modules[fused.__name__] = fused
    packages = ("", ".bridge", ".bridge.models", ".bridge.peft", ".bridge.training")
    for package in (*packages, ".core", ".core.models", ".core.models.gpt", ".core.fusions"):
        modules[f"megatron{package}"] = types.ModuleType(package)
    return modules | {"torch": torch}


@pytest.fixture
def config(monkeypatch: pytest.MonkeyPatch) -> Any:
    def built(plan: Plan, job: Job, changes: Mapping[str, Any] = NO_CHANGES) -> Recorded:
        assert violations(ENTRY.rules(plan, job)) == ()
        assert ENTRY.command is not None
        for name, module in _stand_ins().items():
            monkeypatch.setitem(sys.modules, name, module)
        scope: dict[str, Any] = {"__name__": "emitted"}
        exec((ENTRY.command(plan, job, "0.7", changes).files or {})["train.py"], scope)
        return scope["build_config"]()

    for name in ("CUDA_DEVICE_MAX_CONNECTIONS", "NCCL_NVLS_ENABLE", *GROWING_SEGMENTS):
        monkeypatch.setenv(name, "kept")
    monkeypatch.setenv("TORCH_NCCL_AVOID_RECORD_STREAMS", "kept")
    return built


def of(model: str, gpus: int = 64, **work: Any) -> Job:
    return cases.job(model, gpus, **({"seq_len": 2048, "global_batch": 128} | work))


def test_a_dense_model_keeps_its_shape_and_degrees(config: Any) -> None:
    plan = cases.plan(64, 128, tp=8.0, pp=4.0, vpp=5.0, schedule="interleaved-1f1b", sequence_parallel=True)
    found = config(plan, of("llama3-70b"))
    model = {
        "num_layers": 80,
        "hidden_size": 8192,
        "ffn_hidden_size": 28672,
        "num_query_groups": 8,
        "activation_func": "silu",
        "vocab_size": 129024,
        "tensor_model_parallel_size": 8,
        "pipeline_model_parallel_size": 4,
        "virtual_pipeline_model_parallel_size": 5,
        "sequence_parallel": True,
        "pipeline_dtype": "bf16",
    }
    assert {name: found.model[name] for name in model} == model
    assert (found.train.global_batch_size, found.train.micro_batch_size) == (128, 1)
    assert found.model.seq_length == found.dataset.seq_length == 2048
    assert found.comm_overlap.tp_comm_overlap


def test_latent_attention_experts_and_prediction_layers(config: Any) -> None:
    found = config(cases.plan(128, 128, pp=4.0, ep=8.0), of("deepseek-v3", 128, precision="fp8"))
    assert found.model.kind == "MLAModelProvider"
    assert found.model.moe_layer_freq == [0] * 3 + [1] * 58
    assert (found.model.mtp_num_layers, found.model.expert_model_parallel_size) == (1, 8)
    assert found.model.pipeline_model_parallel_layout.endswith("mL")
    assert found.mixed_precision.name == "bf16_with_fp8_current_scaling_mixed"
    assert not found.mixed_precision.first_last_layers_bf16


def test_experts_stand_in_the_layers_that_have_them_alone(config: Any) -> None:
    """The provider's default puts experts into every layer, whatever moe_layer_freq says."""
    spec = config(cases.plan(128, 128, pp=4.0, ep=8.0), of("deepseek-v3", 128)).model.transformer_layer_spec
    assert (spec.func, spec.keywords) == (layers_by_frequency, {"use_transformer_engine": True})
    assert "transformer_layer_spec" not in config(cases.plan(64, 128), of("llama3-8b")).model


def test_lora_puts_adapters_beside_every_linear_layer_of_a_block(
    config: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHECKPOINT", "trained")
    plan = cases.plan(64, 128, tp=8.0, sequence_parallel=True)
    found = config(plan, of("llama3-70b", method="lora", lora_rank=32))
    assert found.peft == {
        "kind": "LoRA", "target_modules": ["linear_qkv", "linear_proj", "linear_fc1", "linear_fc2"],
        "dim": 32, "alpha": 64, "dropout": 0.0, "sequence_parallel_input_regather": True,
    }  # fmt: skip
    assert found.checkpoint.pretrained_checkpoint == "trained"
    assert "peft" not in config(plan, of("llama3-70b"))


def test_what_a_tuned_recipe_of_lora_chooses_is_set(config: Any) -> None:
    asked = {
        "fp8_activation_input": True, "fp8_attention": True, "low_bit_weights": "alone",
        "cached_transposes": False, "adapter_dropout": True,
    }  # fmt: skip
    work = {"method": "lora", "lora_targets": ("qkv", "proj"), "precision": "fp8-delayed"}
    found = config(cases.plan(64, 128), of("llama3-8b", **work), asked)
    assert found.model.activation_func_fp8_input_store
    assert found.model.disable_parameter_transpose_cache
    assert found.mixed_precision.fp8_param_gather
    assert found.mixed_precision.fp8_dot_product_attention
    assert (found.peft.target_modules, found.peft.dropout) == (["linear_qkv", "linear_proj"], 0.1)
    plain = config(cases.plan(64, 128), of("llama3-8b", **work))
    assert not plain.mixed_precision.fp8_param_gather
    assert "activation_func_fp8_input_store" not in plain.model


def test_lora_of_latent_attention_and_experts(config: Any) -> None:
    found = config(cases.plan(128, 128, pp=4.0, ep=8.0), of("deepseek-v3", 128, method="lora")).peft
    down_and_up = ["linear_q_down_proj", "linear_q_up_proj", "linear_kv_down_proj", "linear_kv_up_proj"]
    assert found.target_modules[:4] == down_and_up
    assert not found.share_expert_adapters


@every(
    ("axes", "work", "rule", "nearest"),
    [
        ({"tp": 8.0}, {"method": "lora", "lora_rank": 12}, "tp-divides-lora-rank", "lora rank 16"),
        ({"zero": 3}, {"method": "lora"}, "lora-without-fsdp", "zero 1"),
        ({}, {"method": "qlora"}, "method-offered", "--runtime fsdp or full"),
    ],
)
def test_what_adapters_need(axes: dict[str, Any], work: dict[str, Any], rule: str, nearest: str) -> None:
    faults = violations(ENTRY.rules(cases.plan(64, 128, **axes), of("llama3-70b", **work)))
    assert [(fault.rule, fault.nearest) for fault in faults] == [(rule, nearest)]


def test_adapters_of_row_parallel_layers_give_back_a_width_that_tp_divides() -> None:
    """peft/utils.py, `ParallelLinearAdapter`: "8193 is not divisible by 2", but on qkv and fc1 alone."""
    for targets, kept in ((None, False), (("qkv", "fc1"), True), (("proj",), False)):
        job = of("llama3-70b", method="lora", lora_targets=targets)
        odd = replace(job, model=job.model.model_copy(update={"hidden": 8193}))
        assert bool(np.all(adapter_width_rule(cases.plan(64, 128, tp=2.0), odd).holds)) is kept
        assert bool(np.all(adapter_width_rule(cases.plan(64, 128, tp=2.0), job).holds))


def test_who_starts_adapters_says_from_which_weights() -> None:
    assert ENTRY.command is not None
    command = ENTRY.command(cases.plan(64, 128), of("llama3-8b", method="lora"), "0.7")
    assert command.needs[0] == "CHECKPOINT"
    assert "NEEDS = ('CHECKPOINT'," in (command.files or {})["train.py"]


def test_windows_sinks_and_biases(config: Any) -> None:
    found = config(cases.plan(64, 128, ep=8.0), of("gpt-oss-120b")).model
    assert found.window_size == (127, 0)
    assert found.window_attn_skip_freq == [1, 0] * 18
    assert (found.softmax_type, found.add_bias_linear) == ("learnable", True)


def test_a_plain_feed_forward_keeps_its_activation(config: Any) -> None:
    found = config(cases.plan(64, 128), of("gpt3-175b")).model
    assert (found.activation_func, found.gated_linear_unit) == ("gelu", False)
    assert found.position_embedding_type == "learned_absolute"


@pytest.mark.parametrize(
    ("fields", "sharded", "format_"),
    [
        ({"zero": 0}, (False, None), "torch_dist"),
        ({"zero": 1, "zero_shards": 16.0}, (True, None), "torch_dist"),
        ({"zero": 3}, (True, "optim_grads_params"), "fsdp_dtensor"),
    ],
)
def test_what_data_parallelism_shards(
    config: Any, fields: dict[str, Any], sharded: tuple[bool, str | None], format_: str
) -> None:
    found = config(cases.plan(64, 128, **fields), of("llama3-8b"))
    ddp = found.ddp
    assert (ddp.use_distributed_optimizer, ddp.get("data_parallel_sharding_strategy")) == sharded
    assert ddp.num_distributed_optimizer_instances == (4 if "zero_shards" in fields else 1)
    assert found.checkpoint.ckpt_format == format_


def test_optimizer_states_recompute_and_gradients(config: Any) -> None:
    job = of("llama3-8b", state_dtype="bf16", gradient_dtype="bf16")
    found = config(cases.plan(64, 128, offload="optimizer", recompute="full:8"), job)
    assert (found.optimizer.exp_avg_dtype, found.optimizer.optimizer_cpu_offload) == ("bf16", True)
    assert (found.model.recompute_method, found.model.recompute_num_layers) == ("block", 8)
    assert not found.mixed_precision.grad_reduce_in_fp32


@pytest.mark.parametrize("zero", [0, 1])
def test_muon_with_shared_states_is_the_layer_wise_optimizer(config: Any, zero: int) -> None:
    """Megatron-Bridge's own recipes with Muon set these three: no command line turns one into another."""
    made = config(cases.plan(64, 128, zero=zero), of("llama3-8b", optimizer="muon"))
    assert made.optimizer.optimizer == "muon"
    assert not made.optimizer.use_distributed_optimizer
    assert made.optimizer.use_layer_wise_distributed_optimizer == (zero == 1)
    assert made.ddp.use_distributed_optimizer == (zero == 1)


def test_saved_tensors_of_some_layers_go_to_the_host(config: Any) -> None:
    """The three fields that its performance guide names for the offload of activations."""
    found = config(cases.plan(64, 128, offload="activations:20"), of("llama3-8b")).model
    assert (found.cpu_offloading, found.cpu_offloading_num_layers) == (True, 20)
    assert found.cpu_offloading_weights is False
    assert "cpu_offloading" not in config(cases.plan(64, 128), of("llama3-8b")).model


def test_learned_positions_are_as_many_as_the_sequence_is_long() -> None:
    faults = violations(ENTRY.rules(cases.plan(64, 128), of("gpt3-175b", seq_len=1024)))
    assert [fault.rule for fault in faults] == ["positions-equal-sequence"]
