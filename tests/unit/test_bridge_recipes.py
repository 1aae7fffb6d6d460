"""Launch lines of Megatron-Bridge that name a recipe; values are of its recipes at 067f987d."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.errors import InputError
from planner.runtimes.imports.dispatch import read_runner_file
from planner.runtimes.imports.sheet import Imported
from planner.runtimes.megatron_bridge.reading.recipe_table import known_recipe, recipe_names
from tests.cases import every
from tests.cli.command import planner

RUN = "torchrun --nnodes {} --nproc-per-node 8 scripts/training/run_recipe.py "
LLAMA = RUN.format(4) + "--recipe llama3_70b_pretrain_config --dataset mock "
PERF = "python scripts/performance/setup_experiment.py -m deepseek -mr deepseek_v3 -gn 8 -g h100 -c fp8_cs "
WHOLE = PERF + "-ng 1024 "


def read(folder: Path, text: str) -> Imported:
    path = folder / "train.sh"
    path.write_text(text + "\n")
    return read_runner_file(path)


def test_a_recipe_has_its_own_degrees(tmp_path: Path) -> None:
    """recipes/llama/h100/llama3.py, llama3_70b_pretrain_32gpu_h100_bf16_config."""
    found = read(tmp_path, LLAMA)
    assert (found.runtime, found.model_name, found.faults) == ("megatron-bridge", "llama3-70b", ())
    wanted = {
        "tp": "4",
        "pp": "4",
        "cp": "2",
        "vpp": "5",
        "micro_batch": "1",
        "seq_len": "8192",
        "gpus": "32",
    }
    assert {name: found.options.get(name) for name in wanted} == wanted


def test_overrides_and_flags_go_before_the_recipe(tmp_path: Path) -> None:
    found = read(
        tmp_path, LLAMA + "-gb 64 -cp 1 model.tensor_model_parallel_size=8 train.global_batch_size=128"
    )
    assert [found.options.get(name) for name in ("tp", "cp", "global_batch")] == ["8", "1", "128"]
    assert any("train.global_batch_size 512 to 128" in note for note in found.notes)


@every(
    ("recipe", "settings"),
    [
        (
            "deepseek_v3_pretrain_256gpu_gb300_fp8mx_config",
            ("cuda_graphs=passes", "expert_overlap=on", "loss_kernel=te", "low_bit_weights=alone",
             "low_bit_head=mxfp8", "fp8_attention=true", "dispatcher=fused"),
        ),
        (
            "deepseek_v3_pretrain_256gpu_b200_fp8mx_config",
            ("cuda_graphs=attention", "expert_overlap=on", "dispatcher=fused", "low_bit_weights=alone"),
        ),
        ("llama31_405b_pretrain_256gpu_gb300_fp8cs_config", ("loss_kernel=te", "low_bit_weights=alone")),
        ("kimi_k2_pretrain_256gpu_gb200_bf16_config", ("cuda_graphs=router", "loss_kernel=te")),
        ("qwen25_7b_pretrain_2gpu_h100_bf16_config", ()),
    ],
)  # fmt: skip
def test_a_recipe_has_its_own_settings(recipe: str, settings: tuple[str, ...], tmp_path: Path) -> None:
    """As their functions return them: kernels, graphs and weights that neither degree nor batch says."""
    changes = read(tmp_path, f"{RUN.format(1)} --recipe {recipe}").changes
    named = ("cuda_graphs=", "loss_kernel=", "low_bit_", "fp8_attention=", "expert_overlap=", "dispatcher=")
    assert {one for one in changes if one.startswith(named)} >= set(settings)
    assert settings or not [one for one in changes if one.startswith(("loss_kernel=", "cuda_graphs="))]


def test_states_shared_out_by_layers_are_sharded(tmp_path: Path) -> None:
    """``dist_muon`` is Muon under Megatron-core's layer-wise optimizer."""
    found = read(tmp_path, f"{RUN.format(32)} --recipe kimi_k2_pretrain_256gpu_b200_bf16_config")
    assert [found.options[name] for name in ("optimizer", "zero")] == ["muon", "1"]


def test_an_override_that_is_a_setting_is_priced_and_not_told_as_unknown(tmp_path: Path) -> None:
    words = "model.cuda_graph_impl=full_iteration model.transformer_impl=x"
    found = read(tmp_path, f"{LLAMA} {words}")
    assert "cuda_graphs=passes" in found.changes
    assert found.unknown == ("model.transformer_impl",)


def test_the_benchmarks_selectors_name_a_recipe(tmp_path: Path) -> None:
    found = read(tmp_path, WHOLE)
    assert [found.options[name] for name in ("tp", "pp", "ep", "gpus", "precision")] == [
        "2",
        "8",
        "64",
        "1024",
        "fp8",
    ]
    assert "sequence_parallel" not in read(tmp_path, WHOLE + "-tp 1").options


@every("nodes", [2, 1])
def test_a_benchmarks_batch_grows_with_its_ranks(tmp_path: Path, nodes: int) -> None:
    """scripts/training/README.md: the samples of an accelerator stay."""
    name = "qwen3_30b_a3b_pretrain_16gpu_h100_fp8cs_config"
    recipe = known_recipe(name)
    assert recipe is not None
    whole = recipe.fields["train.global_batch_size"]
    found = read(tmp_path, RUN.format(nodes) + f"--recipe {name}")
    assert int(found.options["global_batch"]) * 2 == whole * nodes


@every("name", ["dataset.seq_length", "dataset.sequence_length"])
def test_a_length_that_both_say_is_one(tmp_path: Path, name: str) -> None:
    """training/config.py, ``GPTDatasetConfig``: its fields have both names."""
    found = read(tmp_path, f"{LLAMA} model.seq_length=4096 {name}=4096")
    assert found.options["seq_len"] == "4096"


@every(
    ("line", "said"),
    [
        (LLAMA.replace("llama3_70b", "llama9_70b"), "llama3_70b_pretrain_config"),
        (LLAMA + "--mode dora", "dora"),
        (LLAMA + "model.tensor_parallel=4", "model.tensor_parallel"),
        (LLAMA + "modle.tensor_model_parallel_size=4", "modle"),
        (LLAMA + "model.seq_length=4096", "dataset.seq_length"),
        (LLAMA + "mixed_precision=foo", "mixed_precision"),
        (LLAMA + "--tensor-parallel 4", "--tensor-parallel"),
        (PERF.replace("h100", "h200") + "-ng 64", "deepseek_v3_pretrain_64gpu_h200_fp8cs_config"),
    ],
)
def test_what_is_not_known_is_refused(tmp_path: Path, line: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        read(tmp_path, line)


@every(
    ("recipe", "why"),
    [
        ("wan_14b_pretrain_config", "it trains a diffusion transformer"),
        ("qwen35_vl_397b_a17b_pretrain_64gpu_b200_bf16_config", "its 60 layers are no multiple"),
        ("qwen35_vl_9b_sft_4gpu_h100_bf16_config", "it trains a prediction layer"),
        ("qwen3_vl_8b_peft_1gpu_h100_bf16_config", "it has adapters in its encoder too"),
        ("qwen3_vl_30b_a3b_pretrain_16gpu_h100_bf16_config", "it has 12 virtual stages"),
        ("glm52_pretrain_416gpu_h100_bf16_config", "its model, zai-org/GLM-5.2, is not in the zoo"),
    ],
)
def test_a_recipe_without_a_price_is_refused_with_the_reason(tmp_path: Path, recipe: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        read(tmp_path, f"{RUN.format(4)} --recipe {recipe}")


def test_a_hybrid_has_graphs_of_its_mixers_beside_experts_that_run_again(tmp_path: Path) -> None:
    """perf_recipes/nemotronh/h100/nemotronh.py: ``attn`` and ``mamba`` as graphs, ``moe`` recomputed."""
    found = read(tmp_path, f"{RUN.format(2)} --recipe nemotron_3_nano_pretrain_16gpu_h100_bf16_config")
    assert (found.model_name, found.options["ep"], found.options["recompute"]) == (
        "nemotron-3-nano-30b-a3b",
        "8",
        "selective:moe+norm",
    )
    assert "cuda_graphs=attention" in found.changes


def test_a_benchmark_that_shows_images_has_its_encoder(tmp_path: Path) -> None:
    """data/builders/mock_vlm_sft.py: an image of 256 x 256 points in each sequence. Stages of 17 and 23."""
    recipe = "qwen35_vl_35b_a3b_pretrain_16gpu_h100_bf16_config"
    found = read(tmp_path, f"{RUN.format(2)} --recipe {recipe}")
    assert found.model is not None
    assert found.model.encoder is not None
    assert (found.model.encoder_params, found.model.encoder.patches) == (446_571_248, 256)
    assert (found.options["images"], found.options["stage_layers"]) == ("1", "17,23")
    more = "dataset.num_images=4 dataset.image_size=[512,512]"
    several = read(tmp_path, f"{RUN.format(2)} --recipe {recipe} {more}")
    assert several.model is not None
    assert several.model.encoder is not None
    assert (several.options["images"], several.model.encoder.patches) == ("4", 1024)
    script = tmp_path / "many.sh"
    script.write_text(f"{RUN.format(2)} --recipe {recipe} {more.replace('images=4', 'images=17')}\n")
    refused = planner("estimate", "--from", str(script), "--hardware", "dgx-h100", "--format", "json")
    rules = {one["rule"]: one["nearest"] for one in refused.json["violations"]}
    assert rules["images-fit-sequence"] == "--images 16 or --seq-len 4352"
    with pytest.raises(InputError, match="whose encoder the recipe has"):
        read(tmp_path, f"{RUN.format(2)} --recipe {recipe} model.hidden_size=1024")
    script = tmp_path / "low.sh"
    script.write_text(f"{RUN.format(16)} --recipe qwen35_vl_122b_a10b_pretrain_128gpu_h100_fp8cs_config\n")
    priced = planner("estimate", "--from", str(script), "--hardware", "dgx-h100", "--format", "json")
    assert priced.code == 0, priced.err


def test_a_recipe_may_train_the_projector_behind_a_frozen_encoder(tmp_path: Path) -> None:
    """recipes/qwen_vl/h100/qwen35_vl.py, ``qwen35_vl_27b_pretrain_16gpu_h100_bf16_mock_config``."""
    recipe = "qwen35_vl_27b_pretrain_16gpu_h100_bf16_mock_config"
    found = read(tmp_path, f"{RUN.format(2)} --recipe {recipe}")
    assert (found.options["freeze_encoder"], found.options["train_projector"]) == ("true", "true")
    assert found.places["train_projector"] == "model.freeze_vision_projection"
    assert found.model is not None
    assert found.model.encoder is not None
    assert found.model.encoder.patches == 256
    alone = read(tmp_path, f"{RUN.format(1)} --recipe qwen35_vl_9b_pretrain_4gpu_h100_bf16_mock_config")
    assert alone.options["method"] == "projector"
    assert "freeze_encoder" not in alone.options


def test_a_recipe_whose_data_decide_has_an_image_in_each_sequence(tmp_path: Path) -> None:
    found = read(tmp_path, f"{RUN.format(1)} --recipe qwen25_vl_7b_sft_2gpu_h100_bf16_config")
    assert found.model is not None
    assert found.model.name == "qwen2.5-vl-7b"
    assert found.options["images"] == "1"
    assert any("its data decide lengths and images" in note for note in found.notes)


def test_another_shape_is_another_model(tmp_path: Path) -> None:
    found = read(tmp_path, RUN.format(1) + "--recipe llama3_8b_pretrain_config model.num_layers=16")
    assert found.model_name is None
    assert found.model is not None
    assert (found.model.num_layers, found.model.vocab) == (16, 128256)


@every("name", recipe_names()[::13])
def test_every_recipe_is_read_without_a_fault(tmp_path: Path, name: str) -> None:
    assert read(tmp_path, RUN.format(128) + f"--recipe {name} train.global_batch_size=2048").faults == ()


MODEL, TRAIN, DDP, OVER = "model.", "train.", "ddp.", "comm_overlap."
ILLEGAL = [
    *(f"{MODEL}tensor_model_parallel_size={n}" for n in (3, 0, 64, -4, 16)),
    *(f"{MODEL}pipeline_model_parallel_size={n}" for n in (3, 0, 5, 64)),
    *(f"{MODEL}virtual_pipeline_model_parallel_size={n}" for n in (3, 32, 7)),
    *(f"{MODEL}context_parallel_size={n}" for n in (3, 0, 16, 5)),
    *(f"{MODEL}expert_model_parallel_size={n}" for n in (2, 7, 0)),
    *(f"{MODEL}num_attention_heads={n}" for n in (30, 0)),
    *(f"{MODEL}num_query_groups={n}" for n in (5, 3)),
    *(f"{MODEL}num_layers={n}" for n in (79, 0, 81)),
    *(f"{MODEL}recompute_granularity={word}" for word in ("full", "foo")),
    *(f"{MODEL}{name}=0"
      for name in ("kv_channels", "num_moe_experts", "moe_shared_expert_intermediate_size")),
    *(f"{MODEL}{pair}" for pair in ("normalization=Foo",)),
    *(f"{MODEL}{pair}" for pair in ("cp_comm_type=foo", "cuda_graph_impl=foo", "hidden_dropout=2")),
    *(f"{MODEL}{pair}" for pair in ("position_embedding_type=foo", "multi_latent_attention=true")),
    *(f"{MODEL}{pair}"
      for pair in ("pipeline_model_parallel_layout=x*3", "hierarchical_context_parallel_sizes=[3,2]")),
    *(f"{MODEL}{pair}"
      for pair in ("microbatch_group_size_per_vp_stage=1", "fine_grained_activation_offloading=true")),
    *(f"{MODEL}{pair}" for pair in ("cpu_offloading=true", "num_layers_in_first_pipeline_stage=90")),
    *(f"{TRAIN}global_batch_size={n}" for n in (0, -8)),
    *(f"{TRAIN}micro_batch_size={n}" for n in (0, 3, 5, 1024)),
    *(f"{DDP}num_distributed_optimizer_instances={n}" for n in (3, 0)),
    *(f"{DDP}{pair}" for pair in ("data_parallel_sharding_strategy=foo", "use_megatron_fsdp=maybe")),
    *(f"{OVER}{name}=true" for name in ("overlap_moe_expert_parallel_comm", "delay_wgrad_compute")),
    *(f"optimizer.{pair}" for pair in ("optimizer=foo", "exp_avg_dtype=torch.bfloat16", "use_distributed=1")),
    *("dataset.seq_length=0", "dataset.seq_length=4097", "mixed_precision=fp7", "peft.rank=8"),
    *("tp=4", "a.b=1", f"{MODEL}bias_activation_fusion=true {MODEL}activation_func=foo"),
]  # fmt: skip


def test_there_are_sixty() -> None:
    assert len(set(ILLEGAL)) >= 60


@every("override", ILLEGAL)
def test_an_illegal_override_is_not_priced_in_silence(tmp_path: Path, override: str) -> None:
    path = tmp_path / "train.sh"
    path.write_text(LLAMA + override + "\n")
    done = planner("estimate", "--from", str(path), "--hardware", "dgx-h100", "-q")
    assert done.code != 0


def test_the_runner_gives_adam_in_bf16_its_flag() -> None:
    """scripts/training/run_recipe.py, _apply_benchmark_runtime_defaults: benchmarks, no other optimizer."""
    found = [
        (one.fields.get("optimizer.use_precision_aware_optimizer"), one.fields.get("optimizer.optimizer"))
        for name in recipe_names()
        if "_bf16_" in name and (one := known_recipe(name)) is not None and one.gpus is not None
    ]
    assert len(found) > 60
    assert {aware for aware, optimizer in found if optimizer is None} == {True}
    assert not any(aware for aware, optimizer in found if optimizer is not None)
