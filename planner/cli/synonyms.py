"""Options by the names that other programs give them, and what they are called here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

SAID: Final[Mapping[str, str]] = {
    "MODEL": "model model-name model-name-or-path hf-model config",
    "--hardware": "hw cluster machine device gpu gpu-type accelerator profile",
    "--gpus": "num-gpus n-gpus ngpus gpu-count world-size nproc num-devices devices ranks",
    "--nodes": "num-nodes nnodes n-nodes node-count",
    "--gpus-per-node": "nproc-per-node num-gpus-per-node ngpus-per-node devices-per-node",
    "--seq-len": "seq seq-length sequence-length sequence-len max-seq-len max-length context context-length "
    "ctx max-position-embeddings",
    "--global-batch": "global-batch-size gbs train-batch-size total-batch-size",
    "--global-batch or --micro-batch": "batch batch-size bs",
    "--micro-batch": "micro-batch-size mbs microbatch microbatch-size per-device-train-batch-size "
    "local-batch-size train-micro-batch-size-per-gpu",
    "--global-batch-tokens": "batch-tokens tokens-per-batch tokens-per-step",
    "--tokens": "train-tokens num-tokens total-tokens",
    "--tp": "tensor-parallel tensor-parallel-size tensor-parallel-degree tensor-model-parallel-size tp-size",
    "--pp": "pipeline-parallel pipeline-parallel-size pipeline-parallel-degree pp-size "
    "pipeline-model-parallel-size",
    "--vpp": "virtual-pipeline interleave virtual-pipeline-model-parallel-size",
    "--cp": "context-parallel context-parallel-size context-parallel-degree cp-size ulysses sp-size",
    "--ep": "expert-parallel expert-parallel-size expert-model-parallel-size ep-size",
    "--etp": "expert-tensor-parallel expert-tensor-parallel-size",
    "--dp": "data-parallel data-parallel-size dp-size data-parallel-replicate-degree",
    "--zero": "zero-stage stage fsdp sharding use-distributed-optimizer distributed-optimizer",
    "--zero-shards": "data-parallel-shard-degree fsdp-size shard-degree hybrid-shard",
    "--recompute": "activation-checkpointing gradient-checkpointing checkpointing ac ckpt "
    "recompute-granularity",
    "--sequence-parallel": "sp",
    "--precision": "dtype bf16 fp16 fp8 mixed-precision",
    "--optimizer": "optim",
    "--method": "lora qlora finetune fine-tune peft",
    "--lora-rank": "lora-r rank",
    "--runtime": "framework engine backend",
    "--memory-limit": "max-memory gpu-memory memory mem",
    "--objective": "minimize minimise optimize goal sort",
    "--top": "top-k k limit num-plans",
    "--emit": "out output-dir",
    "--save": "save-plan output o",
    "--format": "json csv markdown output-format fmt",
    "--launcher": "scheduler",
    "--price": "cost usd-per-hour gpu-price",
    "--step-time": "step-seconds iteration-time time",
    "--tokens-per-s": "throughput tps tokens-per-second",
    "--offload": "cpu-offload optimizer-offload offload-optimizer",
}
"""What an option is called here, and elsewhere."""


def hint_of(option: str, command: Any) -> str:
    """Return what to write for an option that a command lacks; empty where it has nothing of that meaning."""
    word = option.lstrip("-").lower().replace("_", "-")
    meant = next((name for name, others in SAID.items() if word in others.split()), "")
    known = {name for one in getattr(command, "params", ()) for name in (*one.opts, one.metavar or "")}
    if meant == "MODEL":
        return "the model without an option, as the first word" if known & {"MODEL", "[MODEL]"} else ""
    return " or ".join(name for name in meant.split(" or ") if name in known)
