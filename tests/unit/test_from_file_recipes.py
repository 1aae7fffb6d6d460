"""Files of NeMo Automodel and llm-foundry, and what of them is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.errors import InputError
from planner.inputs.model import ModelSpec
from planner.runtimes.imports.dispatch import read_runner_file
from planner.runtimes.imports.sheet import Imported
from tests.cases import every

AUTOMODEL = """\
recipe: TrainFinetuneRecipeForNextTokenPrediction
step_scheduler: {global_batch_size: 512, local_batch_size: 4, max_steps: 30}
distributed: {strategy: fsdp2, tp_size: 1, cp_size: 1, pp_size: 1, ep_size: 8, activation_checkpointing: true}
model:
  _target_: nemo_automodel.NeMoAutoModelForCausalLM.from_config
  config:
    _target_: transformers.AutoConfig.from_pretrained
    pretrained_model_name_or_path: Qwen/Qwen3-30B-A3B
  backend: {_target_: nemo_automodel.components.models.common.BackendConfig, dispatcher: deepep}
loss_fn: {_target_: nemo_automodel.components.loss.masked_ce.MaskedCrossEntropy}
dataset: {_target_: nemo_automodel.components.datasets.llm.mock.Mock, seq_len: 4096}
optimizer: {_target_: torch.optim.Adam, lr: 1.0e-4}
"""

MPT = """\
variables: {max_seq_len: 2048}
max_seq_len: ${variables.max_seq_len}
model: {name: mpt_causal_lm, d_model: 8192, n_heads: 64, n_layers: 80, expansion_ratio: 4, vocab_size: 50368,
        max_seq_len: "${variables.max_seq_len}", attn_config: {attn_impl: flash}}
optimizer: {name: decoupled_adamw, lr: 8.0e-5}
global_train_batch_size: 1024
device_train_microbatch_size: 4
precision: amp_bf16
fsdp_config: {sharding_strategy: FULL_SHARD, mixed_precision: PURE, activation_checkpointing: true,
              activation_cpu_offload: false, limit_all_gathers: true}
"""


def read(folder: Path, text: str, name: str = "recipe.yaml") -> Imported:
    (folder / name).write_text(text, encoding="utf-8")
    return read_runner_file(folder / name)


def faults(folder: Path, text: str) -> str:
    with pytest.raises(InputError) as caught:
        read(folder, text).checked()
    return str(caught.value)


def test_experts_of_automodel_are_spread_as_torchtitan_spreads_them(tmp_path: Path) -> None:
    found = read(tmp_path, AUTOMODEL).checked()
    said = found.options
    assert (found.runtime, said["ep"], said["micro_batch"], said["global_batch"]) == (
        "torchtitan",
        "8",
        "4",
        "512",
    )
    # components/moe/parallelizer.py: reshard_after_forward is false unless told
    assert (said["zero"], said["recompute"], said["seq_len"]) == ("2", "full", "4096")
    assert {said[f"{kind}_dtype"] for kind in ("state", "master", "gradient")} == {"bf16"}
    assert set(found.changes) == {"compiled=false", "loss_chunks=1", "dispatcher=fused"}
    assert not found.unknown


def test_a_dense_model_of_automodel_is_sharded_by_fsdp(tmp_path: Path) -> None:
    text = AUTOMODEL.replace("Qwen3-30B-A3B", "Qwen3-8B").replace("ep_size: 8", "dp_size: 16")
    found = read(tmp_path, text.replace("tp_size: 1", "tp_size: 2")).checked()
    assert (found.runtime, found.options["zero"], found.options["gpus"]) == ("fsdp", "3", "32")
    assert found.model_name == "qwen3-8b"


def test_a_command_of_automodel_overrides_its_file(tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text(AUTOMODEL, encoding="utf-8")
    line = "automodel recipe.yaml --nproc-per-node 8 --step_scheduler.local_batch_size 2\n"
    said = read(tmp_path, line, "run.sh").checked().options
    assert (said["gpus"], said["micro_batch"], said["ep"]) == ("8", "2", "8")


@every(
    ("old", "new", "said"),
    [
        (
            "TrainFinetuneRecipeForNextTokenPrediction",
            "KnowledgeDistillationRecipe",
            "recipe: found Knowledge",
        ),
        ("strategy: fsdp2", "strategy: megatron_fsdp", "--runtime megatron-bridge"),
        (", seq_len: 4096", "", "--seq-len"),
        ("torch.optim.Adam", "flashoptim.FlashAdamW", "optimizer._target_"),
        ("Qwen/Qwen3-30B-A3B", "Qwen/Qwen3-30B-A3B, num_hidden_layers: 2", "num_hidden_layers"),
        ("dispatcher: deepep", "te_fp8: {recipe: mxfp8}", "te_fp8"),
        ("ep_size: 8", "ep_size: 8, dp_size: 48", "a multiple of local_batch_size 4 x dp 48"),
        ("pp_size: 1", "pp_size: 8", "pp_size 8 or more passes"),
    ],
)
def test_what_automodel_has_and_the_planner_has_not_is_a_fault(
    tmp_path: Path, old: str, new: str, said: str
) -> None:
    assert old in AUTOMODEL
    text = AUTOMODEL.replace(old, new)
    if "num_hidden_layers" in new:
        text = AUTOMODEL.replace(old, "Qwen/Qwen3-30B-A3B\n    num_hidden_layers: 2")
    assert said in faults(tmp_path, text)


def test_a_stage_of_automodel_holds_as_many_layers_as_it_says(tmp_path: Path) -> None:
    pipe = "pp_size: 4, pipeline: {pp_schedule: interleaved1f1b, pp_microbatch_size: 1, layers_per_stage: 4}"
    said = read(tmp_path, AUTOMODEL.replace("pp_size: 1", pipe)).checked().options
    assert (said["schedule"], said["vpp"], said["micro_batch"]) == ("interleaved-1f1b", "3", "1")
    odd = pipe.replace("layers_per_stage: 4", "layers_per_stage: 5")
    assert "10 stages over pp 4" in faults(tmp_path, AUTOMODEL.replace("pp_size: 1", odd))
    down = odd.replace(
        "layers_per_stage: 5", "layers_per_stage: 5, round_virtual_stages_to_pp_multiple: down"
    )
    assert read(tmp_path, AUTOMODEL.replace("pp_size: 1", down)).checked().options["vpp"] == "2"


def test_an_mpt_has_the_parameters_that_its_authors_print(tmp_path: Path) -> None:
    """llm-foundry, scripts/train/benchmarking/README.md: mpt-70b has 64,862,437,376 parameters."""
    found = read(tmp_path, MPT).checked()
    assert isinstance(found.model, ModelSpec)
    # the authors count the norms' and layers' biases as their YAML leaves them: on
    assert found.model.params == pytest.approx(64.8624e9, rel=1e-4)
    said = found.options
    assert (found.runtime, said["zero"], said["recompute"], said["seq_len"]) == ("fsdp", "3", "full", "2048")
    assert "reduce_dtype=bf16" in found.changes
    assert not found.unknown


def test_a_platforms_file_and_composer_say_how_many_start(tmp_path: Path) -> None:
    inner = "".join(f"  {line}\n" for line in MPT.splitlines())
    platform = f"compute: {{gpus: 16}}\ncommand: composer train.py x.yaml\nparameters:\n{inner}"
    assert read(tmp_path, platform).checked().options["gpus"] == "16"
    (tmp_path / "recipe.yaml").write_text(MPT, encoding="utf-8")
    line = "composer -n 8 train/train.py recipe.yaml fsdp_config.activation_checkpointing=false\n"
    said = read(tmp_path, line, "run.sh").checked().options
    assert (said["gpus"], said["recompute"]) == ("8", "none")


@every(
    ("old", "new", "said"),
    [
        ("device_train_microbatch_size: 4", "device_train_microbatch_size: auto", "--micro-batch"),
        ("decoupled_adamw", "clipped_adam", "--optimizer"),
        ("activation_cpu_offload: false", "activation_cpu_offload: true", "--offload none"),
        ("n_heads: 64", "n_heads: 60", "heads that divide d_model"),
        ("n_heads: 64", "n_heads: -1", "a count, 1 or more"),
        ("attn_impl: flash", "attn_type: grouped_query_attention, kv_n_heads: 7", "kv_n_heads that divide"),
        ("mpt_causal_lm", "hf_t5", "mpt_causal_lm or hf_causal_lm"),
        ("amp_bf16", "amp_int8", "precision: found amp_int8"),
        ("FULL_SHARD", "SOME_SHARD", "sharding_strategy"),
        ("attn_config: {", "ffn_config: {ffn_type: mb_dmoe}, attn_config: {", "ffn_type"),
    ],
)
def test_what_llm_foundry_has_and_the_planner_has_not_is_a_fault(
    tmp_path: Path, old: str, new: str, said: str
) -> None:
    assert old in MPT
    assert said in faults(tmp_path, MPT.replace(old, new))
