"""Files that their runner refuses are refused, each by the key that is wrong."""

from __future__ import annotations

import json
from pathlib import Path

from planner.runtimes.imports.dispatch import read_runner_file
from tests.cases import every
from tests.cli.command import planner

FSDP = "distributed_type: FSDP\nnum_processes: 8\nnum_machines: 1\nmixed_precision: bf16\n"
SIZES = "parallelism_config:\n  parallelism_config_dp_shard_size: {}\n  parallelism_config_cp_size: {}\n"
MEGATRON = """torchrun --nproc_per_node 8 --nnodes 1 pretrain_gpt.py --num-layers 32 --hidden-size 4096 \\
 --ffn-hidden-size 14336 --num-attention-heads 32 --max-position-embeddings 8192 --seq-length 4096 --swiglu \\
 --vocab-size 32000 --normalization RMSNorm --disable-bias-linear --position-embedding-type rope \\
 --untie-embeddings-and-output-weights --micro-batch-size 1 --global-batch-size 64 """


def faults(path: Path, text: str) -> set[str]:
    path.write_text(text)
    return {problem.where.rpartition(": ")[2] for _, problem in read_runner_file(path).faults}


ZERO_2 = {"zero_optimization": {"stage": 2}}
MASTERS = {"enabled": True, "bf16_master_weights_and_grads": True}


@every(
    ("tree", "key"),
    [
        ({}, None),
        ({"train_batch_size": 16, "gradient_accumulation_steps": 3}, "train_batch_size"),
        ({"gradient_accumulation_steps": 0}, "gradient_accumulation_steps"),
        ({"fp16": {"enabled": True}}, "fp16.enabled"),
        ({"communication_data_type": "foo"}, "communication_data_type"),
        ({"prescale_gradients": True, **ZERO_2}, "prescale_gradients"),
        ({"prescale_gradients": True}, None),
        ({**ZERO_2, "bf16": MASTERS}, "bf16.bf16_master_weights_and_grads"),
        ({**ZERO_2, "bf16": MASTERS | {"bf16_optimizer_states": True}}, None),
        ({"bf16": {"enabled": True, "bf16_optimizer_states": True}}, "bf16.bf16_optimizer_states"),
    ],
)
def test_deepspeed(tmp_path: Path, tree: dict, key: str | None) -> None:
    whole = {"train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": True}, **tree}
    assert faults(tmp_path / "ds.json", json.dumps(whole)) == ({key} if key else set())


@every(
    ("text", "key"),
    [
        (FSDP + SIZES.format(1, 8), None),
        (FSDP + SIZES.format(3, 8), "num_processes"),
        (FSDP.replace("FSDP", "FOO"), "distributed_type"),
        (FSDP.replace("machines: 1", "machines: 3"), "num_machines"),
        (FSDP + "fsdp_config:\n  fsdp_version: 3\n", "fsdp_config.fsdp_version"),
    ],
)
def test_accelerate(tmp_path: Path, text: str, key: str | None) -> None:
    assert faults(tmp_path / "a.yaml", text) == ({key} if key else set())


def test_accelerate_ulysses_under_deepspeed_is_sequence_parallel(tmp_path: Path) -> None:
    sizes = SIZES.format(2, 1) + "  parallelism_config_sp_size: 2\n"
    path = tmp_path / "a.yaml"
    path.write_text(
        "distributed_type: DEEPSPEED\nnum_processes: 4\ndeepspeed_config:\n  zero_stage: 3\n" + sizes
    )
    options = read_runner_file(path).options
    assert (options["cp"], options["cp_method"]) == ("2", "all-to-all")


@every(
    ("flags", "key"),
    [
        ("--bf16", None),
        ("--bf16 --fp16", "--fp16"),
        ("--bf16 --recompute-granularity full", "--recompute-granularity"),
        ("--bf16 --overlap-param-gather", "--overlap-param-gather"),
        ("--bf16 --pipeline-model-parallel-size 3", "--pipeline-model-parallel-size"),
        ("--bf16 --use-torch-fsdp2 --pipeline-model-parallel-size 2", "--use-torch-fsdp2"),
        ("--bf16 --num-layers-per-virtual-pipeline-stage 4", "--num-layers-per-virtual-pipeline-stage"),
        ("--bf16 --seq-length 16384", "--seq-length"),
    ],
)
def test_megatron(tmp_path: Path, flags: str, key: str | None) -> None:
    assert faults(tmp_path / "train.sh", MEGATRON + flags + "\n") == ({key} if key else set())


PP = "--pipeline-model-parallel-size"
LAYOUT = "--pipeline-model-parallel-layout"
EXPERTS = "--num-experts 8 --moe-router-topk 2"


@every(
    ("flags", "key"),
    [
        # Choices of the parsers
        ("--fp8-format foo", "--fp8-format"),
        ("--ckpt-format zarr", "--ckpt-format"),
        ("--moe-router-load-balancing-type foo", "--moe-router-load-balancing-type"),
        ("--moe-router-load-balancing-type aux_loss sinkhorn", None),
        ("--window-size 128 0", "--window-size"),
        ("--window-size 128,0", None),
        # Batch and loop
        ("--step-batch-size-schedule 0:8", "--step-batch-size-schedule"),
        ("--train-iters 10 --train-samples 10", "--train-samples"),
        ("--lr 1e-4 --min-lr 1", "--min-lr"),
        ("--save x", "--save"),
        ("--save x --save-interval 10", None),
        ("--warmup 3", "--warmup"),
        # Recompute
        ("--recompute-granularity selective --recompute-method uniform", "--recompute-granularity"),
        ("--recompute-granularity selective --recompute-num-layers 2", "--recompute-granularity"),
        ("--recompute-granularity selective --recompute-modules foo", "--recompute-modules"),
        (f"{EXPERTS} --recompute-granularity selective --recompute-modules moe_act", "--recompute-modules"),
        ("--recompute-granularity full --recompute-method uniform --recompute-num-layers 1", None),
        ("--distribute-saved-activations", "--distribute-saved-activations"),
        # Sharding and formats
        ("--overlap-grad-reduce --overlap-param-gather", "--overlap-param-gather"),
        ("--use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather", None),
        ("--use-megatron-fsdp", "--use-megatron-fsdp"),
        ("--use-megatron-fsdp --ckpt-format fsdp_dtensor", None),
        ("--use-megatron-fsdp --ckpt-format fsdp_dtensor --optimizer muon", "--use-megatron-fsdp"),
        ("--ckpt-format fsdp_dtensor", "--ckpt-format"),
        ("--use-torch-fsdp2", "--use-torch-fsdp2"),
        ("--use-torch-fsdp2 --no-gradient-accumulation-fusion", None),
        ("--fp4-format e2m1 --fp8-format hybrid", "--fp4-format"),
        ("--fp8-param-gather", "--fp8-param-gather"),
        ("--main-grads-dtype bf16 --accumulate-allreduce-grads-in-fp32", "--main-grads-dtype"),
        ("--optimizer-cpu-offload --use-distributed-optimizer", "--optimizer-cpu-offload"),
        ("--cross-entropy-loss-fusion --cross-entropy-fusion-impl foo", "--cross-entropy-fusion-impl"),
        # Attention, activation and experts
        ("--hierarchical-context-parallel-sizes 2 2", "--hierarchical-context-parallel-sizes"),
        ("--tp-comm-overlap", "--tp-comm-overlap"),
        ("--squared-relu", "--squared-relu"),
        ("--num-attention-heads 33", "--num-attention-heads"),
        ("--experimental-attention-variant dsa", "--experimental-attention-variant"),
        ("--moe-ffn-hidden-size 512", "--moe-ffn-hidden-size"),
        ("--moe-layer-freq [1]*8", "--moe-layer-freq"),
        (f"{EXPERTS} --moe-router-enable-expert-bias", "--moe-router-enable-expert-bias"),
        (f"{EXPERTS} --moe-router-enable-expert-bias --moe-router-score-function sigmoid", None),
        ("--num-experts 8 --moe-router-topk 1", "--moe-router-topk"),
        ("--num-experts 8 --moe-router-topk 1 --moe-router-pre-softmax", None),
        (f"{EXPERTS} --moe-router-num-groups 3 --moe-router-group-topk 2", "--moe-router-group-topk"),
        (f"{EXPERTS} --overlap-moe-expert-parallel-comm", "--overlap-moe-expert-parallel-comm"),
        # Layers over stages
        (f"{PP} 2 --num-virtual-stages-per-pipeline-rank 2 {LAYOUT} Et*16|t*16L", "CHUNKS"),
        (f"{PP} 2 --decoder-first-pipeline-num-layers 5 {LAYOUT} Et*16|t*16L", "FIRST"),
        (f"{PP} 2 --decoder-first-pipeline-num-layers 0", "FIRST"),
        (f"{PP} 2 {LAYOUT} Et*16|t*16L", None),
        (f"{PP} 2 {LAYOUT} Et*30||ttL", LAYOUT),
        (f"{PP} 2 {LAYOUT} t*16|t*16L", LAYOUT),
        (f"{PP} 2 {LAYOUT} Et*16|t*16", LAYOUT),
        (f"{PP} 2 {LAYOUT} Et*16|t*15L", LAYOUT),
        (f"{PP} 2 {LAYOUT} Et*16|t*16mL", LAYOUT),
        (f"{PP} 2 --mtp-num-layers 1 {LAYOUT} Et*16|t*16mL", None),
        (f"{PP} 2 --mtp-num-layers 1 {LAYOUT} Et*16|t*16|m|L", None),
        (f"{PP} 2 --mtp-num-layers 1 {LAYOUT} Et*16|m|t*16|L", LAYOUT),
        (f"{PP} 2 --mtp-num-layers 1 {LAYOUT} Et*16|t*15|tm|L", None),
        (f"{PP} 4 --mtp-num-layers 1 {LAYOUT} Et*16|t*15|tm||L", LAYOUT),
        (f"{PP} 2 {LAYOUT} Ex*16|t*16L", LAYOUT),
    ],
)
def test_megatron_checks(tmp_path: Path, flags: str, key: str | None) -> None:
    """Each is what Megatron-LM d98e8a64 refuses, or takes where there is no key."""
    key = {
        "CHUNKS": "--num-virtual-stages-per-pipeline-rank",
        "FIRST": "--decoder-first-pipeline-num-layers",
    }.get(str(key), key)
    base = MEGATRON.replace("--num-attention-heads 32", "") if "--num-attention-heads" in flags else MEGATRON
    flags = flags if "--num-attention-heads" in flags else f"{flags} --bf16"
    text = base + "".join(f" '{word}'" if "*" in word else f" {word}" for word in flags.split()) + "\n"
    assert faults(tmp_path / "train.sh", text) == ({key} if key else set())


@every(("group", "wrong"), [(1, True), (2, False), (3, False), (31, True), (32, False), (64, True)])
def test_megatron_rounds_fill_the_pipeline(tmp_path: Path, group: int, wrong: bool) -> None:
    """32 passes of four replicas over two ranks: schedules.py wants rounds of 2 to 32, and no rest of 1."""
    flags = f"{PP} 2 --num-virtual-stages-per-pipeline-rank 2 --bf16 --global-batch-size 128"
    key = "--microbatch-group-size-per-virtual-pipeline-stage"
    assert faults(tmp_path / "a.sh", f"{MEGATRON} {flags} {key} {group}\n") == ({key} if wrong else set())


def test_megatron_fsdp_needs_several_connections(tmp_path: Path) -> None:
    flags = "--use-megatron-fsdp --ckpt-format fsdp_dtensor --bf16\n"
    for number, wrong in (("1", {"--use-megatron-fsdp"}), ("8", set())):
        text = f"export CUDA_DEVICE_MAX_CONNECTIONS={number}\n{MEGATRON}{flags}"
        assert faults(tmp_path / "a.sh", text) == wrong


@every(("lines", "told"), [("", 1), ("export CUDA_DEVICE_MAX_CONNECTIONS=1\n", 0)])
def test_megatron_wants_one_connection_with_tensor_parallelism(tmp_path: Path, lines: str, told: int) -> None:
    path = tmp_path / "a.sh"
    path.write_text(f"{lines}{MEGATRON} --bf16 --tensor-model-parallel-size 2\n")
    notes = read_runner_file(path).notes
    assert sum("CUDA_DEVICE_MAX_CONNECTIONS" in note for note in notes) == told


def test_a_schedule_of_batches_is_priced_at_its_last(tmp_path: Path) -> None:
    path = tmp_path / "a.sh"
    text = MEGATRON.replace("--global-batch-size 64", "--step-batch-size-schedule '0:128 1.5B:256'")
    path.write_text(f"{text} --bf16\n")
    found = read_runner_file(path)
    assert found.options["global_batch"] == "256"
    assert any("last batch" in note for note in found.notes)


def test_a_fault_of_the_model_is_told_where_no_model_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.sh").write_text(f"{MEGATRON} --bf16 --norm-epsilon 0\n")
    done = planner("estimate", "--from", str(tmp_path / "a.sh"), "--hardware", "dgx-h100")
    assert (done.code, "--norm-epsilon: found '0'" in done.err) == (2, True)


def test_latent_attention_beside_learned_positions_and_biases(tmp_path: Path) -> None:
    """Megatron-LM's own gpt3_mcore_te_tp2_pp2_mla: the output projection has a bias too."""
    shape = MEGATRON.replace(
        "--disable-bias-linear --position-embedding-type rope", "--multi-latent-attention"
    )
    (tmp_path / "a.sh").write_text(f"{shape} --bf16\n")
    done = planner("estimate", "--from", str(tmp_path / "a.sh"), "--hardware", "dgx-h100", "--format", "json")
    assert done.json["violations"] == []
    found = read_runner_file(tmp_path / "a.sh").model
    assert found is not None
    plain = {
        name: block.mixer.model_copy(update={"output_bias": False}) for name, block in found.blocks.items()
    }
    assert [block.mixer.params(4096) - plain[name].params(4096) for name, block in found.blocks.items()] == [
        4096
    ]


@every(
    ("text", "key"),
    [
        ("", None),
        ("tensor_parallel_degree = 8", None),
        (
            "tensor_parallel_degree = 8\n[parallelism]\ntensor_parallel_degree = 4",
            "training.tensor_parallel_degree",
        ),
        ('mixed_precision_reduce = "bfloat16"', "training.mixed_precision_reduce"),
        ('[parallelism]\nfsdp_reshard_after_forward = "sometimes"', "parallelism.fsdp_reshard_after_forward"),
    ],
)
def test_torchtitan(tmp_path: Path, text: str, key: str | None) -> None:
    whole = (
        f'[model]\nname = "llama3"\nflavor = "8B"\n[training]\nseq_len = 8192\nlocal_batch_size = 1\n{text}\n'
    )
    assert faults(tmp_path / "a.toml", whole) == ({key} if key else set())


def test_degrees_of_torchtitan_of_2024_are_read(tmp_path: Path) -> None:
    """As in eminorhan/frontier-torchtitan: replicas, shards and tensor parallelism below [training]."""
    (tmp_path / "a.toml").write_text(
        '[model]\nname = "llama3"\nflavor = "8B"\n[training]\nseq_len = 8192\nbatch_size = 2\n'
        "data_parallel_replicate_degree = 4\ndata_parallel_shard_degree = 32\ntensor_parallel_degree = 8\n"
        "[experimental]\npipeline_parallel_degree = 1\n"
    )
    (tmp_path / "train.sh").write_text(
        "srun torchrun --nnodes 128 --nproc_per_node 8 ./train.py --job.config_file a.toml\n"
    )
    found = read_runner_file(tmp_path / "train.sh")
    wanted = {"gpus": "1024", "tp": "8", "dp": "128", "zero_shards": "32", "pp": "1", "micro_batch": "2"}
    assert {name: found.options[name] for name in wanted} == wanted
    assert (found.model_name, found.faults) == ("llama3-8b", ())


@every(("batch", "wrong"), [(64, False), (32, True)])
def test_deepspeed_batch_is_that_of_the_replicas_that_start(tmp_path: Path, batch: int, wrong: bool) -> None:
    """Two a replica, four times, on eight: 64."""
    sizes = {
        "train_batch_size": batch,
        "train_micro_batch_size_per_gpu": 2,
        "gradient_accumulation_steps": 4,
    }
    (tmp_path / "ds.json").write_text(json.dumps({**sizes, "bf16": {"enabled": True}}))
    (tmp_path / "a.yaml").write_text(
        "distributed_type: DEEPSPEED\nnum_processes: 8\ndeepspeed_config:\n  deepspeed_config_file: ds.json\n"
    )
    found = [problem.where for _, problem in read_runner_file(tmp_path / "a.yaml").faults]
    assert [where.rpartition(": ")[2] for where in found] == (["train_batch_size"] if wrong else [])


@every(
    ("before", "gpus"),
    [("torchrun", "8"), ("python -m torch.distributed.launch", "8"), ("srun torchrun", None)],
)
def test_torchrun_without_nodes_starts_one(tmp_path: Path, before: str, gpus: str | None) -> None:
    """torch/distributed/run.py: --nnodes is 1:1 by default; under srun each node has its own."""
    head = f"{before} --nproc_per_node 8"
    text = MEGATRON.replace("torchrun --nproc_per_node 8 --nnodes 1", head) + "--bf16\n"
    if before.startswith("srun"):
        text = f"#!/bin/bash\n#SBATCH --gpus-per-node=8\n{text}"
    (tmp_path / "a.sh").write_text(text)
    assert read_runner_file(tmp_path / "a.sh").options.get("gpus") == gpus
