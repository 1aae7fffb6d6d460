"""Benchmarks of Megatron-Bridge by their selectors: programs of other names, recipes of other sizes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from planner.runtimes.megatron_bridge.reading.bridge_benchmarks import benchmark_recipe
from planner.runtimes.megatron_bridge.reading.recipe_words import words_of
from tests.cases import every
from tests.cli.command import Done, planner

SELECTORS = "--model_family_name llama --model_recipe_name {} --gpu {} --num_gpus {} --gpus_per_node {} -c {}"


def asked(folder: Path, words: str, program: str = "scripts/performance/run_script.py") -> Done:
    """Return what ``estimate`` answers to a launch as container scripts write it, in a here-document."""
    file = folder / "launcher.sh"
    file.write_text(
        "worker=$(cat <<- EOM\n  numactl --membind=0 \\\\\n  nice -10 \\\\\n"
        f"  python {program} {words}\nEOM\n)\n"
        'echo "$worker" > worker.sh\ntorchrun --nproc-per-node=8 --no-python bash worker.sh\n'
    )
    hardware = "gb300-nvl72" if "gb300" in words else "dgx-h100"
    return planner("estimate", "--from", str(file), "--hardware", hardware, "--format", "json")


def read(folder: Path, words: str, **more: str) -> dict[str, Any]:
    done = asked(folder, words, **more)
    assert done.code == 0, done.err
    return dict(json.loads(done.out))


def test_a_copy_of_the_launcher_is_told_by_its_selectors(tmp_path: Path) -> None:
    words = SELECTORS.format("llama3_70b", "h100", 64, 8, "bf16")
    answer = read(tmp_path, words, program="scripts/performance/custom_setup.py")
    assert answer["model"]["name"] == "llama3-70b"
    assert answer["plan"]["tp"] == 4
    older = words.replace("--model_recipe_name llama3_70b", "--model_name llama3 --model_size 70b")
    assert read(tmp_path, older, program="scripts/performance/custom_setup.py")["plan"] == answer["plan"]
    assert answer["hardware"]["gpus"] == 64


@every(
    ("stem", "gpu", "size", "dtype", "taken"),
    [
        ("deepseek_v3", "gb300", 512, "fp8_mx", "deepseek_v3_pretrain_256gpu_gb300_fp8mx_config"),
        ("llama3_8b", "h100", 24, "bf16", "llama3_8b_pretrain_8gpu_h100_bf16_config"),
        ("qwen3_30b_a3b", "h100", 48, "bf16", "qwen3_30b_a3b_pretrain_16gpu_h100_bf16_config"),
        ("llama3_70b", "h100", 32, "fp8_cs", "llama3_70b_pretrain_64gpu_h100_fp8cs_config"),
        ("no_such_model", "h100", 32, "fp8_cs", None),
    ],
)
def test_accelerators_without_a_recipe_take_the_default_one(
    stem: str, gpu: str, size: int, dtype: str, taken: str | None
) -> None:
    """Megatron-Bridge 067f987d, scripts/performance/utils/utils.py, ``_select_default_recipe_name``."""
    words = words_of(tuple(SELECTORS.format(stem, gpu, size, 8, dtype).split()), "launcher.sh")
    name, found = benchmark_recipe(words)
    assert name.startswith(f"{stem}_pretrain_{size}gpu_{gpu}_")
    assert (None if found is None else found.name) == taken


def test_its_batch_grows_with_its_data_parallel_ranks(tmp_path: Path) -> None:
    answer = read(tmp_path, SELECTORS.format("deepseek_v3", "gb300", 512, 4, "fp8_mx"))
    assert answer["workload"]["global_batch"] == 8192
    assert answer["plan"]["dp"] == 2 * 128


def test_stages_that_are_asked_for_bring_their_layout(tmp_path: Path) -> None:
    more = " -pp 4 -vp 4 --expert_model_parallel_size 64"
    answer = read(tmp_path, SELECTORS.format("deepseek_v3", "gb300", 256, 4, "fp8_mx") + more)
    layers = answer["plan"]["stage_layers"]
    assert (len(layers), layers[0], layers[-1], sum(layers)) == (16, 4, 1, 61)


def test_flags_of_graphs_and_dispatchers_are_read_and_may_be_abbreviated(tmp_path: Path) -> None:
    words = SELECTORS.format("qwen3_30b_a3b", "h100", 16, 8, "bf16")
    graphs = " --cuda_graph_impl transformer_engine --cuda_graph_scope attn,moe_router,moe_preprocess"
    more = " --moe_flex_dispatcher_backend None --max_step 50 --moe_a2a_overlap false"
    settings = read(tmp_path, words + graphs + more)["settings"]
    assert settings["expert_dispatcher"] == "all-to-all"
    assert settings["cuda_graphs"] == "attention"
    plain = read(tmp_path, f"{words} --cuda_graph_impl none --moe_flex_dispatcher_backend deepep")["settings"]
    assert (plain["expert_dispatcher"], plain["cuda_graphs"]) == ("fused", "none")
    told = read(tmp_path, f"{words} --nccl_ub true")
    assert told["from"]["not_understood"] == ["ddp.nccl_ub"]


def test_a_flag_that_begins_several_is_refused(tmp_path: Path) -> None:
    done = asked(tmp_path, SELECTORS.format("llama3_70b", "h100", 64, 8, "bf16") + " --max 5")
    assert done.code == 2
    assert "--max: found a flag that is not known" in done.err


@every(
    ("name", "alone"),
    [
        ("bf16_with_fp8_current_scaling_mixed", "alone"),
        ("bf16_with_fp8_delayed_scaling_mixed", "alone"),
        ("bf16_mixed", None),
    ],
)
def test_a_precision_by_its_name_brings_its_weights(tmp_path: Path, name: str, alone: str | None) -> None:
    """Megatron-Bridge 067f987d, training/mixed_precision.py: ``fp8_param_gather`` of each recipe."""
    file = tmp_path / "train.sh"
    start = "torchrun --nproc-per-node 8 run_recipe.py --recipe llama3_8b_pretrain_config"
    file.write_text(f"{start} mixed_precision={name}\n")
    done = planner(
        "estimate", "--from", str(file), "--hardware", "dgx-h100", "--gpus", "8", "--format", "json"
    )
    assert done.json["settings"].get("low_bit_weights") == alone


def test_a_program_that_is_set_elsewhere_is_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "launcher.sh"
    file.write_text("torchrun --nnodes 2 ${NEMO_LAUNCH_SCRIPT} --factory 'recipe()'\n")
    done = planner("estimate", "--from", str(file), "--hardware", "dgx-h100")
    assert done.code == 2
    assert "found the program ${NEMO_LAUNCH_SCRIPT}, which the script does not set" in done.err


def test_a_width_that_is_not_known_beside_an_overlap_is_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "train.sh"
    shape = "--num-layers 4 --hidden-size 1024 --num-attention-heads 8 --max-position-embeddings 1024"
    experts = "--num-experts 8 --moe-shared-expert-intermediate-size ${X} --moe-shared-expert-overlap"
    batch = "--seq-length 1024 --micro-batch-size 1 --global-batch-size 8 --bf16 --vocab-size 32000"
    file.write_text(f"torchrun --nproc-per-node 8 pretrain_gpt.py {shape} {experts} {batch}\n")
    done = planner("estimate", "--from", str(file), "--hardware", "dgx-h100")
    assert done.code == 2
    assert "--moe-shared-expert-intermediate-size" in done.err
