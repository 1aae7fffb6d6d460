"""Frameworks find their era by their text, and a run's statements change its traits."""

from __future__ import annotations

import math

import numpy as np
import pytest

from planner.calibrate.eras import Era, eras, find_era
from planner.calibrate.eras.shared import SHARED, read_shared
from planner.calibrate.eras.statements import era_traits, stated_traits, statements, with_graphs
from planner.calibrate.runs.checks import framework_names
from planner.calibrate.stages import stages
from planner.inputs.fitted import all_constants
from planner.inputs.shipped import data_folder
from planner.runtimes import runtimes
from planner.runtimes.traits import Traits
from planner.techniques.context import CONTEXT_METHODS
from planner.techniques.methods import METHODS
from planner.techniques.offload import OFFLOADS
from planner.techniques.optimizers import OPTIMIZERS
from planner.techniques.schedules import SCHEDULES
from tests.cases import every
from tests.unit.shipped_eras import eras_by_name


@every(
    ("framework", "gpu", "flash", "era", "runtime"),
    [
        ("megatron-lm", "a100-80gb-sxm", None, "megatron-2020-22", "megatron-lm"),
        ("megatron-lm", "v100-32gb", 0, "megatron-2020-22", "megatron-lm"),
        ("megatron-lm 8aa4619f", "v100-16gb", None, "megatron-2020-22", "megatron-lm"),
        ("megatron-lm", "a100-80gb-sxm", 2, "megatron-lm", "megatron-lm"),
        ("Megatron-LM", "h100-80gb-sxm", None, "megatron-lm", "megatron-lm"),
        ("megatron-core r0.9", "a100-80gb-sxm", None, "megatron-lm", "megatron-lm"),
        ("megatron-lm (zero-bubble fork)", "a100-80gb-sxm", None, "zero-bubble-2023", "megatron-lm"),
        ("megatron-deepspeed 0.6.2", "a100-80gb-sxm", None, "megatron-deepspeed", "megatron-lm"),
        ("megatron-llama", "a100-80gb-sxm", 1, "megatron-like", "megatron-lm"),
        ("aleph-alpha in-house (megatron-like)", "a100-80gb-sxm", 2, "megatron-like", "megatron-lm"),
        ("megatron-bridge, NeMo container 26.04", "gb200-186gb", None, "megatron-bridge", "megatron-bridge"),
        (
            "megatron-bridge, NeMo container 26.02.01",
            "b300",
            None,
            "megatron-bridge-early",
            "megatron-bridge",
        ),
        (
            "megatron-bridge, NeMo container 26.02.01",
            "h200-141gb",
            None,
            "megatron-bridge",
            "megatron-bridge",
        ),
        ("nemo 24.07 (megatron-core)", "h100-80gb-sxm", None, "nemo-2024", "megatron-bridge"),
        ("nemo", "h100-80gb-sxm", None, "nemo-2025", "megatron-bridge"),
        ("Megatron-Bridge", "gb300", None, "megatron-bridge-graph", "megatron-bridge"),
        ("megatron-bridge", "h100-80gb-sxm", None, "megatron-bridge", "megatron-bridge"),
        ("megatron-bridge 411c6b1dc2", "gb300", None, "megatron-bridge", "megatron-bridge"),
        ("torchtitan", "h100-80gb-sxm", None, "torchtitan", "torchtitan"),
        ("torchtitan, 2024", "h100-80gb-sxm", None, "torchtitan-2024", "torchtitan"),
        ("deepspeed zero-3", "v100-32gb", None, "deepspeed", "deepspeed"),
        ("deepspeed (HF)", "a100-80gb-sxm", None, "deepspeed", "deepspeed"),
        ("deepspeed-ulysses", "a100-80gb-sxm", 2, "sequence-2023", "fsdp"),
        ("ring-self-attention", "a100-80gb-sxm", None, "ring-self-attention-2021", "fsdp"),
        ("fsdp (llm-foundry/composer)", "a100-80gb-sxm", None, "llm-foundry-2023", "fsdp"),
        ("fsdp", "h100-80gb-sxm", None, "fsdp", "fsdp"),
        ("torchtitan 9dec370, torch 1963fc8, 2024-12", "h100", None, "torchtitan-2024", "torchtitan"),
        ("torchtitan, torch 2.14.0a0", "b200-180gb", None, "torchtitan", "torchtitan"),
        ("oneflow", "v100-16gb", 0, "oneflow-2021", "megatron-lm"),
        ("litgpt thunder nvfuser", "a100-40gb-sxm", None, "litgpt", "fsdp"),
        ("nanotron", "h100-80gb-sxm", None, "nanotron", "nanotron"),
        ("deepspeed 0.3.13", "a100-80gb-sxm", None, "deepspeed-2021", "deepspeed"),
        ("deepspeed 0.5.5", "a100-80gb-sxm", None, "deepspeed", "deepspeed"),
        ("deepspeed", "a100-80gb-sxm", None, "deepspeed", "deepspeed"),
        ("internevo", "a100-80gb-sxm", None, "internevo-2023", "megatron-lm"),
        ("Megatron-LM 2024-06", "a100-80gb-sxm", None, "megatron-lm", "megatron-lm"),
        ("rocm/megatron-lm v25.4", "mi250x-gcd", None, "megatron-lm", "megatron-lm"),
        ("megatron-lm v2.5", "a100-80gb-sxm", None, "megatron-2020-22", "megatron-lm"),
        ("megatron-lm", "l40s", None, "megatron-lm", "megatron-lm"),
        ("megatron-lm", "a800-80gb-sxm", None, "megatron-2020-22", "megatron-lm"),
        ("megatron-bridge 26.06", "gb200-186gb", None, "megatron-bridge-graph", "megatron-bridge"),
        ("megatron-bridge 26.06, partial graphs", "b300", None, "megatron-bridge", "megatron-bridge"),
        ("NeMo 25.04", "h100-80gb-sxm", None, "nemo-2025", "megatron-bridge"),
        ("nemo-automodel (FSDP2)", "h100-80gb-sxm", None, "automodel", "megatron-bridge"),
        ("GPT-NeoX", "a100-40gb-sxm", None, "megatron-deepspeed", "megatron-lm"),
        ("Megatron-DeepSpeed", "h100-80gb-sxm", None, "megatron-deepspeed-2023", "megatron-lm"),
        ("DeepSpeed 0.14 zero-2", "h100-80gb-sxm", None, "deepspeed-2023", "deepspeed"),
        ("ZeRO-Infinity", "v100-32gb", None, "deepspeed", "deepspeed"),
        ("PyTorch DDP", "a100-80gb-sxm", None, "data-parallel", "fsdp"),
        ("MaxText", "tpu-v5p", None, "xla", "fsdp"),
        ("levanter", "tpu-v4", None, "xla", "fsdp"),
        ("torchtune", "a100-80gb-sxm", None, "fsdp", "fsdp"),
        ("PaddlePaddle fleet", "a100-80gb-sxm", None, "megatron-relatives", "megatron-lm"),
    ],
)
def test_a_framework_text_means_an_era(
    framework: str, gpu: str, flash: int | None, era: str, runtime: str
) -> None:
    found = find_era(framework, gpu, flash)
    assert found is not None
    assert (found.name, found.runtime) == (era, runtime)


@every(
    ("words", "compiled", "one_kernel_norm"),
    [("", False, True), ("torch.compile on", True, True), ("torch.compile off", False, False)],
)
def test_torchtitan_of_2024_is_not_compiled_unless_it_says_so(
    words: str, compiled: bool, one_kernel_norm: bool
) -> None:
    """Its presets say ``compile = false`` and, until 2 May 2024 (5e84866e), ``fused_rmsnorm``."""
    era = find_era("torchtitan (FSDP2), 2024-04", "a100-80gb-sxm", None)
    assert era is not None
    traits = era_traits(Traits(), era, "bf16", stated_traits(era, words, None, None, "", False))
    kernels = (traits.kernels.compiled, traits.kernels.fused_activation, traits.kernels.fused_rope)
    assert kernels == (compiled, compiled, compiled)
    assert traits.kernels.fused_norm == one_kernel_norm


def test_a_trainer_may_compile_its_model_and_not_its_loss() -> None:
    """As KempnerForge does (kempnerforge/distributed/parallel.py): logits in fp32 beside those in 16 bits."""
    era = find_era("fsdp (FSDP2 + DTensor TP)", "h200-141gb", None)
    assert era is not None
    traits = {
        words: era_traits(Traits(), era, "bf16", stated_traits(era, words, None, None, "", False))
        for words in ("", "compile on", "loss not compiled | compile on")
    }
    assert [found.kernels.compiled for found in traits.values()] == [False, True, True]
    assert [found.loss.kind for found in traits.values()] == ["transformers", "compiled", "eager"]
    assert [found.loss.logit_bytes for found in traits.values()] == [14.0, 6.0, 12.0]


@every("version", ["9dec370, 2024-12", "820504e, 2025-06", "main"])
def test_torchtitan_turns_by_complex_numbers_where_it_is_not_compiled(version: str) -> None:
    """As its Llama does in each release, ``view_as_complex``; compiled, it is one kernel."""
    era = find_era(f"torchtitan {version}", "h100-80gb-sxm", None)
    assert era is not None
    of_today = runtimes()["torchtitan"].traits
    eager, compiled = (
        era_traits(of_today, era, "bf16", stated_traits(era, f"torch.compile {word}", None, None, "", False))
        for word in ("off", "on")
    )
    assert (eager.kernels.fused_rope, eager.kernels.rotary_chain) == (False, "complex")
    assert compiled.kernels.fused_rope


def test_sequence_parallelism_dates_a_run_of_old_megatron() -> None:
    """arXiv:2205.05198, sec. 4.2.2: of three collectives backward, two run beside products."""
    era = find_era("megatron-lm", "a100-80gb-sxm", None)
    assert era is not None
    late, early = (
        era_traits(Traits(), era, "fp16", stated_traits(era, "", None, None, "", sequence))
        for sequence in (True, False)
    )
    assert (late.kernels.fused_weight_gradient, late.tensor.exposed) == (True, 3 / 5)
    assert (early.kernels.fused_weight_gradient, early.tensor.exposed) == (False, 1.0)


@every(
    ("zero", "era"),
    [("3", "megatron-deepspeed-zero3"), ("1", "megatron-deepspeed"), ("", "megatron-deepspeed")],
)
def test_zero_3_has_an_engine_of_its_own(zero: str, era: str) -> None:
    found = find_era("megatron-deepspeed 0.6.2", "a100-80gb-sxm", None, zero)
    assert found is not None
    assert found.name == era


@every("framework", ["", "mesh-tensorflow", "nnscaler autodist", "ajax"])
def test_a_framework_that_no_runtime_prices_has_no_era(framework: str) -> None:
    assert find_era(framework, "a100-80gb-sxm", None) is None


@every("era", eras(), ids=lambda era: era.name)
def test_every_era_sets_traits_that_exist_and_says_what_it_stands_for(era: Era) -> None:
    assert isinstance(era_traits(Traits(), era, "fp16", {}), Traits)
    assert len(era.about) > 20


def test_a_code_without_runs_reaches_what_those_with_runs_reach_in_the_mean() -> None:
    """Codes that were run and have no constant count as 1, each once; recipes stand with the accelerators."""
    fitted = {
        (entry.scope, entry.owner): entry.value for entry in all_constants() if entry.name == "compute_derate"
    }
    usual = read_shared(data_folder("hardware_profiles") / "eras" / SHARED).sets["usual"]["compute_derate"]
    measured = [era for era in eras() if era.measured and not era.name.startswith("megatron-bridge")]
    shares = [
        fitted.get(("era", era.name)) or fitted.get(("runtime", era.runtime), 1.0)
        for era in measured
        if era.name not in ("torchtitan", "nanotron", "megatron-lm-grace")
    ]
    assert usual == pytest.approx(math.exp(np.mean(np.log(shares))), abs=0.015)
    unmeasured = {era.name: era.traits.get("compute_derate") for era in eras() if not era.measured}
    assert {name for name, share in unmeasured.items() if share == usual} == {
        "megatron-deepspeed-2023",
        "megatron-relatives",
        "data-parallel",
        "xla",
    }


def said(
    text: str, era: str = "fsdp", flash: int | None = None, norm: int | None = None, gpu: str = ""
) -> Traits:
    known = eras_by_name()[era]
    return era_traits(Traits(), known, "bf16", stated_traits(known, text, flash, norm, gpu, False))


def test_the_compiler_is_on_where_the_run_says_so() -> None:
    assert said("torchtitan | torch.compile on | ").kernels.compiled
    assert said("fsdp |  | torch.compile; batch size as per gpu").kernels.compiled
    assert not said("torchtitan | torch.compile off | ").kernels.compiled
    assert not said("torchtitan |  | tokens/s read at step 90; eager").kernels.compiled
    assert not said("fsdp |  | ").kernels.compiled


PRESET = "recipe kimi_k2_pretrain_config_gb200_fp8_mx@c270efc50 recompute_modules=['mla_up_proj']"


@every(
    ("notes", "era"),
    [
        ("moe tokens force-balanced", "megatron-bridge-graph"),
        ("no recipe at c270efc50 matches this whole layout", "megatron-bridge-graph"),
        (PRESET, "megatron-bridge"),
        (f"{PRESET} cuda_graph_impl=transformer_engine cuda_graph_scope=['moe_router']", "megatron-bridge"),
        (f"{PRESET} cuda_graph_impl=full_iteration", "megatron-bridge-graph"),
        (f"{PRESET} calls=benchmark_common,enable_hybridep_full_iteration_mxfp8", "megatron-bridge-graph"),
        ("| partial graphs | no recipe matches", "megatron-bridge"),
    ],
)
def test_a_recipe_says_what_its_graphs_hold(notes: str, era: str) -> None:
    """Megatron-Bridge v0.5.0, scripts/performance/utils/utils.py: no graph is the default."""
    found = find_era(with_graphs("megatron-bridge 26.06", notes), "gb200-186gb", None)
    assert found is not None
    assert found.name == era


def test_a_recipe_without_a_flex_dispatcher_has_the_all_to_all_one() -> None:
    """Megatron-Bridge v0.4.0, scripts/performance/utils/overrides.py, ``set_workload_base_configs``."""
    told = {
        text: said(f"kimi k2 |  |  | {text}", "megatron-bridge").experts.dispatcher
        for text in (
            PRESET,
            f"{PRESET} moe_flex_dispatcher_backend=hybridep",
            f"{PRESET} calls=x",
            "dropless",
        )
    }
    assert list(told.values()) == ["all-to-all", "fused", "fused", "fused"]
    before = said(f"kimi k2 | nemo container 26.02.01 |  | {PRESET}", "megatron-bridge")
    assert before.experts.dispatcher == "fused"


def test_a_layer_whose_router_is_a_graph_leaves_the_experts_to_the_host() -> None:
    """Megatron-core, transformer/cuda_graphs.py: modules in scope are replayed by one launch.

    A published pair in bf16 with graphs of the router alone takes 8.0 ms a layer and micro-batch in all, and
    6.8 ms where messages overlap: less than the 9 ms that a host takes for a layer without graphs.
    """
    scope = f"{PRESET} cuda_graph_impl=transformer_engine cuda_graph_scope="
    own, era = 0.009, "megatron-bridge"
    known = eras_by_name()[era]
    fitted = known.model_copy(update={"traits": {**known.traits, "expert_layer_host_seconds": own}})
    floors = [
        era_traits(Traits(), fitted, "mxfp8", stated_traits(fitted, text, None, None, "", False))
        for text in (
            f"{scope}['attn', 'moe_router']",
            f"{scope}['moe_router']",
            "graphs moe_router+moe_preprocess",
            PRESET,
        )
    ]
    assert [floor.kernels.graphed for floor in floors] == ["attention", "router", "router", ""]
    assert {floor.experts.layer_host_seconds for floor in floors} == {own}


def test_attention_is_what_the_column_says_before_the_era() -> None:
    assert said("", flash=1).attention.kernel == "flash-1"
    assert said("", flash=3).attention.kernel == "flash-3"
    assert said("", flash=0).attention.kernel == "unfused"
    assert said("", "megatron-2020-22", flash=0).attention.kernel == "fused-softmax"
    assert said("", "llm-foundry-2023").attention.kernel == "triton-2023"
    assert said("kernel=torch; rms_kernel=0", "megatron-like", flash=0).attention.kernel == "unfused"
    assert said("kernel=fused; rms_kernel=0", "megatron-like", flash=0).attention.kernel == "fused-softmax"
    assert (
        said("kernel=flash_attention2 + rms kernel", "megatron-like", flash=2).attention.kernel == "flash-2"
    )


def test_a_row_says_where_checkpoints_are_not_the_method_s_own() -> None:
    """DistFlashAttention's Table 5 compares its own with Hugging Face's, around whole layers."""
    own = said("distflashattn |  | rematerialization-aware", "sequence-2023", flash=2)
    plain = said("distflashattn |  | hf checkpointing", "sequence-2023", flash=2)
    assert (own.recompute.kind, plain.recompute.kind) == ("around-units", "around-layers")
    assert own.optimizer.parameter_dtype == plain.optimizer.parameter_dtype == "fp16"
    assert said("deepspeed-ulysses |  | ", "sequence-2023", flash=2).attention.kernel == "flash-2"


def test_norm_overlap_and_reduction_are_taken_from_the_row() -> None:
    assert said("", "megatron-like", norm=1).kernels.fused_norm
    assert not said("", "megatron-lm", norm=0).kernels.fused_norm
    assert said("fsdp | async tp on | ").tensor.exposed < said("fsdp | async tp off | ").tensor.exposed
    assert said("megatron-bridge | moe a2a | ", "megatron-bridge").experts.overlaps
    assert not said("megatron-bridge | moe a2a off | ", "megatron-bridge").experts.overlaps
    dropped = said("megatron-bridge |  | MoE tokens force-balanced, tokendrop", "megatron-bridge")
    assert (dropped.experts.dispatcher, dropped.experts.static) == ("all-to-all", True)
    assert said("megatron-bridge | moe a2a off | ", "megatron-bridge").experts.exposed == 1
    assert said("x | | moe_a2a_overlap=true;", "megatron-bridge").experts.overlaps
    assert said("x | | moe_a2a_overlap=false;", "megatron-bridge").experts.exposed == 1


@every(
    ("words", "tp", "dp"),
    [
        ("TP overlap off", 1.0, None),
        ("tp_comm_overlap=false overlap_grad_reduce=true", 1.0, None),
        ("overlap_grad_reduce=False", None, 1.0),
        ("dp overlap off", None, 1.0),
        ("no overlap", 1.0, 1.0),
        ("tp_comm_overlap=true", None, None),
    ],
)
def test_what_is_not_overlapped_is_exposed(words: str, tp: float | None, dp: float | None) -> None:
    recipes = eras_by_name()["megatron-bridge"]
    found = stated_traits(recipes, words.lower(), None, None, "", False)
    assert (found.get("tp_exposed"), found.get("dp_exposed")) == (tp, dp)


def test_gradients_of_fp16_runs_before_2023_are_fp16() -> None:
    era = eras_by_name()["megatron-deepspeed"]
    assert era_traits(Traits(), era, "fp16", {}).optimizer.gradient_dtype == "fp16"
    assert era_traits(Traits(), era, "bf16", {}).optimizer.gradient_dtype == "fp32"


def test_a_framework_that_is_offered_is_known() -> None:
    """A hint that the planner does not understand itself would send people in circles."""
    assert {"megatron-lm", "megatron-bridge", "deepspeed", "torchtitan", "fsdp", "nanotron"} <= set(
        framework_names()
    )
    assert [name for name in framework_names() if find_era(name, "h100-80gb-sxm", 2) is None] == []


@every("mode", ["pure", "default"])
def test_both_modes_of_llm_foundry_reduce_in_bf16_and_add_in_fp32(mode: str) -> None:
    """Composer names fp32 for its default's reductions from PR #2628 on, two months after these runs."""
    found = said(f"fsdp | | mp_mode={mode}; ", "llm-foundry-2023").optimizer
    assert (found.reduce_dtype, found.gradient_dtype) == ("bf16", "fp32")


def test_recompute_of_llm_foundry_stops_early_where_its_pytorch_did() -> None:
    """v0.1 asks for torch 1.13.1 in setup.py; v0.3 and Hopper's CUDA 12 come with 2.1, which stops early."""
    for mode, gpu, kind in (
        ("pure", "a100-80gb-sxm", "reentrant"),
        ("default", "a100-80gb-sxm", "early-stop"),
        ("pure", "h100-80gb-sxm", "early-stop"),
    ):
        assert said(f"fsdp | | mp_mode={mode}; ", "llm-foundry-2023", gpu=gpu).recompute.kind == kind


def test_what_the_runs_of_an_era_fit_is_no_trait_of_it() -> None:
    """A trait under a fitted constant of its name would be read before that fit alone."""
    fitted = {key for stage in stages() for factor in stage.factors for key in factor.keys}
    settings = [
        ("era", era.name, name)
        for era in eras()
        for name in (*era.traits, *era.half_traits, *era.sequence_traits, *era.hopper_traits)
    ]
    assert fitted.isdisjoint(settings)


def test_what_belongs_to_a_technique_is_set_by_no_words_of_a_row() -> None:
    """Only dtypes, which a code chooses for itself, may follow from its name where a technique has it too.

    Else `estimate` of that technique would lack what `validate` knows of it.
    """
    families = (CONTEXT_METHODS, SCHEDULES, OPTIMIZERS, OFFLOADS, METHODS)
    names = {
        name for family in families for entry in family.values() for name in (entry.name, *entry.aliases)
    }
    found = {
        (name, trait)
        for name in names
        for statement in statements().found(name).values()
        for trait in statement.traits
    }
    assert {trait for _, trait in found} <= {"parameter_dtype", "gradient_dtype", "reduce_dtype"}
    assert ("distflashattn", "parameter_dtype") in found
