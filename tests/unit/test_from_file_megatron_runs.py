"""Megatron-LM scripts whose graphs, batches of evaluation, data or number formats Megatron-LM refuses."""

from __future__ import annotations

from pathlib import Path

from planner.question.reading import Reading
from planner.question.traits import check_settings
from planner.runtimes import runtimes
from planner.runtimes.imports.dispatch import read_runner_file
from tests.cases import every
from tests.unit.test_from_file_sums import MEGATRON, faults

X = "--num-experts 8 --moe-router-topk 2 --expert-model-parallel-size 2 --moe-grouped-gemm"
DISTRIBUTED = "--use-distributed-optimizer --bf16"
HOSTED = f"{DISTRIBUTED} --optimizer-cpu-offload --use-precision-aware-optimizer"
GRAPH, PARTS = "--cuda-graph-impl", "--cuda-graph-modules"
RANKED = "--moe-token-dispatcher-type flex --moe-expert-rank-capacity-factor 1.5"
FULL = "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1"
UNCHECKED = "--no-check-for-nan-in-loss-and-grad"


@every(
    ("flags", "key"),
    [
        # determinism.py, ARG_VALUES_REQUIRED_FOR_DETERMINISM
        ("--deterministic-mode", None),
        ("--deterministic-mode --cross-entropy-loss-fusion", "--deterministic-mode"),
        (
            "--deterministic-mode --tensor-model-parallel-size 2 --sequence-parallel --tp-comm-overlap",
            "--deterministic-mode",
        ),
        # transformer_config.py, CUDA graphs
        (f"{GRAPH} foo", GRAPH),
        (f"{GRAPH} local", None),
        (f"{GRAPH} local --enable-cuda-graph", GRAPH),
        ("--enable-cuda-graph --external-cuda-graph", "--enable-cuda-graph"),
        (f"{GRAPH} local {PARTS} foo", PARTS),
        (f"{GRAPH} full_iteration", GRAPH),
        (f"{GRAPH} full_iteration {UNCHECKED}", None),
        (f"{GRAPH} full_iteration {UNCHECKED} {PARTS} attn", PARTS),
        (f"{GRAPH} transformer_engine {PARTS} moe_router", PARTS),
        (f"{X} {GRAPH} transformer_engine {PARTS} attn moe_router moe_preprocess", None),
        (f"{X} {GRAPH} transformer_engine {PARTS} moe_preprocess", PARTS),
        (f"{X} {GRAPH} transformer_engine {PARTS} moe", PARTS),
        (f"{X} {GRAPH} transformer_engine {PARTS} moe moe_router", PARTS),
        (f"{GRAPH} transformer_engine {FULL}", GRAPH),
        (f"{GRAPH} full_iteration {UNCHECKED} {FULL}", None),
        # Batches of evaluation and of a ramp: eight replicas
        ("--eval-global-batch-size 63", "--eval-global-batch-size"),
        ("--eval-global-batch-size 32", None),
        ("--eval-micro-batch-size 3", "--eval-micro-batch-size"),
        ("--rampup-batch-size 16 7 1000", "--rampup-batch-size"),
        ("--rampup-batch-size 16 16 1000", None),
        # Data
        ("--mock-data --data-path /x", "--mock-data"),
        ("--data-path /x --valid-data-path /y", "--data-path"),
        ("--train-data-path /x --valid-data-path /y", None),
        # Numbers
        ("--kv-channels 0", "--kv-channels"),
        ("--make-vocab-size-divisible-by 0", "--make-vocab-size-divisible-by"),
        ("--hidden-dropout 2.0", "--hidden-dropout"),
        ("--group-query-attention --num-query-groups 0", "--num-query-groups"),
        (f"{X} --moe-shared-expert-intermediate-size 0", "--moe-shared-expert-intermediate-size"),
        (f"{HOSTED} --optimizer-offload-fraction 2.0", "--optimizer-offload-fraction"),
        # optimizer_config.py
        (f"{DISTRIBUTED} --exp-avg-dtype bf16", "--exp-avg-dtype"),
        (f"{DISTRIBUTED} --exp-avg-dtype bf16 --use-precision-aware-optimizer", None),
        (f"{DISTRIBUTED} --main-params-dtype fp16", "--main-params-dtype"),
        ("--optimizer muon --use-precision-aware-optimizer", "--use-precision-aware-optimizer"),
        ("--ckpt-format torch_dcp", "--ckpt-format"),
        (
            f"{HOSTED} --fp8-format hybrid --fp8-recipe mxfp8 --fp8-param-gather",
            "--fp8-param-gather",
        ),
        (f"{DISTRIBUTED} --num-distributed-optimizer-instances 3", "--num-distributed-optimizer-instances"),
        (f"{DISTRIBUTED} --num-distributed-optimizer-instances 2", None),
        # Context parallelism by length
        ("--hybrid-context-parallel", "--hybrid-context-parallel"),
        ("--hybrid-context-parallel --calculate-per-token-loss", None),
        (
            "--hybrid-context-parallel --calculate-per-token-loss --pipeline-model-parallel-size 2",
            "--hybrid-context-parallel",
        ),
        # Experts
        (f"{X} --moe-flex-dispatcher-backend ncclep", "--moe-flex-dispatcher-backend"),
        (f"{X} {RANKED}", "--moe-expert-rank-capacity-factor"),
        (f"{X} {RANKED} --moe-flex-dispatcher-backend hybridep", "--moe-expert-rank-capacity-factor"),
        (
            f"{X} {RANKED} --moe-flex-dispatcher-backend hybridep --use-transformer-engine-op-fuser",
            None,
        ),
        (f"{X} --moe-paged-stash", "--moe-paged-stash"),
        (f"{X} --moe-layer-recompute {FULL}", "--moe-layer-recompute"),
        (
            f"{X} --moe-shared-expert-intermediate-size 512 --moe-shared-expert-overlap",
            "--moe-shared-expert-overlap",
        ),
        # Positions, and other models of the same sizes
        ("--no-rope-freq 5", "--no-rope-freq"),
        # gpt_model.py: the attributes of yarn that latent attention's configuration lacks
        ("--position-embedding-type yarn --multi-latent-attention", "--position-embedding-type"),
        ("--no-rope-freq 4", None),
        ("--hybrid-layer-pattern M*M*", "--hybrid-layer-pattern"),
    ],
)
def test_megatron_refuses(tmp_path: Path, flags: str, key: str | None) -> None:
    """Each is what Megatron-LM d98e8a64 refuses, or takes where there is no key."""
    flags = flags if "--bf16" in flags else f"{flags} --bf16"
    text = MEGATRON + "".join(f" '{word}'" if "*" in word else f" {word}" for word in flags.split()) + "\n"
    assert faults(tmp_path / "train.sh", text) == ({key} if key else set())


def test_the_loss_of_transformer_engine_is_priced_as_older_releases_run_it(tmp_path: Path) -> None:
    """core_v0.18.0 takes it, core_v0.19.0 asserts against it (megatron/training/arguments.py)."""
    path = tmp_path / "a.sh"
    path.write_text(f"{MEGATRON} --bf16 --cross-entropy-loss-fusion --cross-entropy-fusion-impl te\n")
    found = read_runner_file(path)
    assert not [problem for _, problem in found.faults]
    assert "loss=transformer-engine" in found.changes
    reading = Reading()
    check_settings(found.changes, [runtimes()[found.runtime]], reading)
    assert reading.problems == []  # the setting itself is what files of the newest release cannot ask for
    assert any("0.19" in note and "te" in note for note in found.notes)


def test_an_interval_that_is_a_variable_is_not_missing(tmp_path: Path) -> None:
    assert faults(tmp_path / "a.sh", f"{MEGATRON} --bf16 --save /x --save-interval ${{9}}\n") == set()
    assert faults(tmp_path / "b.sh", f"{MEGATRON} --bf16 --save /x --save-interval 0\n") == {"--save"}
    assert faults(tmp_path / "c.sh", f"{MEGATRON} --bf16 --save /x\n") == {"--save"}


@every(("kind", "rotary", "changed"), [("alibi", False, True), ("rotary", True, False)])
def test_positions_of_megatron_deepspeed(tmp_path: Path, kind: str, rotary: bool, changed: bool) -> None:
    path = tmp_path / "a.sh"
    text = MEGATRON.replace("embedding-type rope", f"embedding-type {kind}")
    path.write_text(text.replace("--max-position-embeddings 8192", "") + " --bf16\n")
    found = read_runner_file(path)
    assert not [problem for _, problem in found.faults]
    assert found.model is not None
    assert not found.model.learned_positions
    assert found.model.blocks[found.model.layers[0]].mixer.rotary is rotary
    assert ("attention=unfused" in found.changes) is changed
    assert any("ALiBi" in note for note in found.notes) is changed


def test_a_named_model_brings_its_own_positions(tmp_path: Path) -> None:
    """ms-swift reads positions and shared experts from the checkpoint, and sends tokens by all-to-all."""
    path = tmp_path / "a.sh"
    path.write_text(
        "NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-30B-A3B-Instruct-2507 --tuner_type lora "
        "--expert_model_parallel_size 8 --moe_shared_expert_overlap true --mtp_num_layers 1 "
        "--max_length 2048 --micro_batch_size 1 --global_batch_size 16\n"
    )
    found = read_runner_file(path)
    assert not [problem for option, problem in found.faults if option != "gpus"]


def test_values_that_later_ones_replace_are_checked_too(tmp_path: Path) -> None:
    """Both parsers check each value as it comes, and start nothing where one is none of the choices."""
    flags = "--fp8-format foo --fp8-format hybrid --recompute-method block --recompute-method block"
    assert faults(tmp_path / "a.sh", f"{MEGATRON} --bf16 {flags}\n") == {"--fp8-format"}
    titan = (
        "torchrun --nproc_per_node 8 -m torchtitan.train --module llama3 --config llama3_8b "
        "--parallelism.fsdp_reshard_after_forward {} --training.mixed_precision_reduce {} "
        "--parallelism.fsdp_reshard_after_forward always --training.mixed_precision_reduce float32\n"
    )
    assert faults(tmp_path / "b.sh", titan.format("never", "float32")) == set()
    assert faults(tmp_path / "c.sh", titan.format("sometimes", "bfloat16")) == {
        "parallelism.fsdp_reshard_after_forward",
        "training.mixed_precision_reduce",
    }


@every(("more", "wrong"), [("", True), ("--no-bias-gelu-fusion", False)])
def test_squared_relu_has_no_fused_bias(tmp_path: Path, more: str, wrong: bool) -> None:
    """transformer_config.py, ``bias_activation_fusion``; without biases there is nothing to fuse."""
    text = MEGATRON.replace("--swiglu", "--squared-relu") + "--bf16 "
    assert not faults(tmp_path / "plain.sh", f"{text}{more}\n")
    found = faults(tmp_path / "biased.sh", f"{text.replace('--disable-bias-linear', more)}\n")
    assert found == ({"--squared-relu"} if wrong else set())


def test_a_scope_of_graphs_alone_makes_none(tmp_path: Path) -> None:
    """Primus says cuda_graph_scope in every file, with graphs switched off beside it."""
    path = tmp_path / "a.sh"
    for more, wanted in (("", ()), ("--enable-cuda-graph ", ("cuda_graphs=attention",))):
        path.write_text(f"{MEGATRON}--bf16 {more}--cuda-graph-scope full\n")
        assert tuple(one for one in read_runner_file(path).changes if "graph" in one) == wanted


def test_data_under_conditions_has_one_source(tmp_path: Path) -> None:
    """Megatron-LM, examples/llama/train_llama3_8b_h100_fp8.sh: made-up data, or files that are named."""
    text = (
        "DATA=()\n"
        'if [[ "$KIND" == "MOCK" ]]; then\n  DATA+=(\n    "--mock-data"\n  )\nelse\n'
        '  DATA+=(\n    "--data-path a"\n  )\nfi\n'
    )
    assert faults(tmp_path / "one.sh", f"{text}{MEGATRON} ${{DATA[@]}}\n") == set()
    assert faults(tmp_path / "two.sh", f"{MEGATRON} --mock-data --data-path a\n") == {"--mock-data"}
