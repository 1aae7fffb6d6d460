"""The YAML that Megatron-Bridge saves of a run, and changes of a recipe in its words.

The form is that of ``ConfigContainer.to_yaml`` (Megatron-Bridge 067f987d, training/config.py).
"""

from __future__ import annotations

from pathlib import Path

from planner.runtimes.imports.dispatch import read_runner_file
from planner.runtimes.imports.sheet import Imported
from tests.cases import every

SAVED = """
_target_: megatron.bridge.training.config.ConfigContainer
dist: {_target_: megatron.bridge.training.config.DistributedInitConfig, use_megatron_fsdp: false}
train:
  _target_: megatron.bridge.training.config.TrainingConfig
  train_iters: 100
  global_batch_size: 64
  micro_batch_size: 1
dataset:
  _target_: megatron.bridge.training.config.MockGPTDatasetConfig
  seq_length: 4096
optimizer:
  _target_: megatron.core.optimizer.optimizer_config.OptimizerConfig
  optimizer: adam
  use_distributed_optimizer: true
  grad_norm_skip_threshold: .inf
  lion_beta1: 0.95
ddp:
  _target_: megatron.core.distributed.distributed_data_parallel_config.DistributedDataParallelConfig
  use_distributed_optimizer: true
  overlap_grad_reduce: true
  overlap_param_gather: true
  grad_reduce_in_fp32: true
mixed_precision:
  _target_: megatron.bridge.training.mixed_precision.MixedPrecisionConfig
  bf16: true
  fp8: hybrid
  fp8_recipe: delayed
  fp16: false
  grad_reduce_in_fp32: true
model:
  _target_: megatron.bridge.models.gpt_provider.GPTModelProvider
  num_layers: 32
  hidden_size: 4096
  ffn_hidden_size: 14336
  num_attention_heads: 32
  num_query_groups: 8
  gated_linear_unit: true
  activation_func: {_call_: false, _target_: torch.nn.functional.silu}
  attention_backend:
    _args_: [5]
    _call_: true
    _name_: auto
    _target_: megatron.core.transformer.enums.AttnBackend
  add_bias_linear: false
  normalization: RMSNorm
  position_embedding_type: rope
  rotary_base: 500000
  share_embeddings_and_output_weights: false
  attention_dropout: 0.0
  hidden_dropout: 0.0
  seq_length: 4096
  vocab_size: 128256
  tensor_model_parallel_size: 2
  pipeline_model_parallel_size: 1
  virtual_pipeline_model_parallel_size: null
  context_parallel_size: 1
  expert_model_parallel_size: 1
  sequence_parallel: true
  qk_clip_alpha: 0.5
  mtp_use_repeated_layer: false
"""


def read(tmp_path: Path, text: str) -> Imported:
    path = tmp_path / "run_config.yaml"
    path.write_text(text, encoding="utf-8")
    return read_runner_file(path)


def test_a_saved_run_is_read_whole(tmp_path: Path) -> None:
    found = read(tmp_path, SAVED)
    wanted = {
        "tp": "2", "zero": "1", "sequence_parallel": "true", "precision": "fp8-delayed", "seq_len": "4096",
        "micro_batch": "1", "global_batch": "64", "optimizer": "adamw",
    }  # fmt: skip
    assert {name: found.options.get(name) for name in wanted} == wanted
    assert (found.runtime, found.model_name) == ("megatron-bridge", "llama3-8b")
    assert (found.unknown, found.faults) == ((), ())


@every(
    ("line", "key"),
    [("qk_clip_alpha: 0.7", "qk_clip_alpha"), ("qk_clip: true", "qk_clip")],
)
def test_a_field_that_somebody_set_is_told(line: str, key: str, tmp_path: Path) -> None:
    start = line.partition(":")[0]
    changed = "\n".join(f"  {line}" if start in one else one for one in SAVED.splitlines())
    assert read(tmp_path, changed).unknown == (key,)


def test_changes_of_a_recipe_say_each_degree_or_leave_it_to_the_user(tmp_path: Path) -> None:
    text = """
model: {tensor_model_parallel_size: 2, pipeline_model_parallel_size: 4, context_parallel_size: 1}
train: {global_batch_size: 64, micro_batch_size: 1, train_iters: 200}
dataset: {seq_length: 8192}
"""
    found = read(tmp_path, text)
    assert {option for option, _ in found.faults} >= {"ep", "vpp"}
    assert any("changes of a recipe" in note for note in found.notes)
