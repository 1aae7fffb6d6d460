"""Models, clusters and jobs for the tests of launch files, by hand from the published configs."""

from __future__ import annotations

from functools import cache
from typing import Any

from planner.inputs.hardware import HardwareProfile
from planner.inputs.load_hardware import load_hardware
from planner.inputs.model import Attention, Block, DenseFfn, Experts, LatentAttention, ModelSpec, Prediction
from planner.inputs.workload import Workload
from planner.plan import Plan
from planner.runtimes._family import Job


def dense(name: str, layers: int, hidden: int, inner: int, vocab: int, **mixer: Any) -> ModelSpec:
    """Return a Llama-like model: gated, RMS norm, rotary, no biases but those of ``mixer``."""
    heads = mixer.pop("heads")
    attention = Attention(
        **(
            {"heads": heads, "kv_heads": heads, "head_dim": hidden // heads}
            | {k: v for k, v in mixer.items()}
        )
    )
    block = Block(mixer=attention, ffn=DenseFfn(inner=inner))
    return ModelSpec(
        name=name,
        hidden=hidden,
        vocab=vocab,
        tied_embeddings=False,
        blocks={"d": block},
        layers=("d",) * layers,
    )


LLAMA3_70B = dense("llama3-70b", 80, 8192, 28672, 128256, heads=64, kv_heads=8)
QWEN2_7B = dense("qwen2.5-7b", 28, 3584, 18944, 152064, heads=28, kv_heads=4, qkv_bias=True)
QWEN3_8B = dense("qwen3-8b", 36, 4096, 12288, 151936, heads=32, kv_heads=8, head_dim=128, qk_norm="head")

GPT3_175B = ModelSpec(
    name="gpt3-175b",
    hidden=12288,
    vocab=51200,
    tied_embeddings=True,
    max_positions=2048,
    learned_positions=True,
    norm="layernorm",
    blocks={
        "d": Block(
            mixer=Attention(
                heads=96, kv_heads=96, head_dim=128, qkv_bias=True, output_bias=True, rotary=False
            ),
            ffn=DenseFfn(inner=49152, gated=False, bias=True),
        )
    },
    layers=("d",) * 96,
)

MIXTRAL_8X7B = ModelSpec(
    name="mixtral-8x7b",
    hidden=4096,
    vocab=32000,
    tied_embeddings=False,
    blocks={
        "m": Block(
            mixer=Attention(heads=32, kv_heads=8, head_dim=128), ffn=Experts(experts=8, topk=2, inner=14336)
        )
    },
    layers=("m",) * 32,
)

QWEN3_30B_A3B = ModelSpec(
    name="qwen3-30b-a3b",
    hidden=2048,
    vocab=151936,
    tied_embeddings=False,
    blocks={
        "m": Block(
            mixer=Attention(heads=32, kv_heads=4, head_dim=128, qk_norm="head"),
            ffn=Experts(experts=128, topk=8, inner=768),
        )
    },
    layers=("m",) * 48,
)

_LATENT = LatentAttention(
    heads=128, q_lora_rank=1536, kv_lora_rank=512, qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128
)
DEEPSEEK_V3 = ModelSpec(
    name="deepseek-v3",
    hidden=7168,
    vocab=129280,
    tied_embeddings=False,
    blocks={
        "d": Block(mixer=_LATENT, ffn=DenseFfn(inner=18432)),
        "m": Block(
            mixer=_LATENT, ffn=Experts(experts=256, topk=8, inner=2048, shared_inner=2048, router_bias=True)
        ),
    },
    layers=("d",) * 3 + ("m",) * 58,
    prediction=Prediction(layers=1, block="m"),
)

_GPT_OSS = {
    kind: Block(
        mixer=Attention(
            heads=64, kv_heads=8, head_dim=64, qkv_bias=True, output_bias=True, sinks=True, window=window
        ),
        ffn=Experts(experts=128, topk=4, inner=2880, bias=True, router_bias=True),
    )
    for kind, window in (("w", 128), ("f", None))
}
GPT_OSS_120B = ModelSpec(
    name="gpt-oss-120b",
    hidden=2880,
    vocab=201088,
    tied_embeddings=False,
    blocks=_GPT_OSS,
    layers=("w", "f") * 18,
)

GEMMA3_LIKE = ModelSpec(
    name="gemma3-like",
    hidden=5376,
    vocab=262208,
    tied_embeddings=True,
    blocks={
        "w": Block(
            mixer=Attention(heads=32, kv_heads=16, head_dim=128, window=1024, qk_norm="head"),
            ffn=DenseFfn(inner=21504),
            norms=4,
        )
    },
    layers=("w",) * 62,
)

MODELS = {
    model.name: model
    for model in (
        LLAMA3_70B,
        QWEN2_7B,
        QWEN3_8B,
        GPT3_175B,
        MIXTRAL_8X7B,
        QWEN3_30B_A3B,
        DEEPSEEK_V3,
        GPT_OSS_120B,
    )
}


@cache
def cluster(name: str = "dgx-h100") -> HardwareProfile:
    """Return a cluster of the profiles."""
    return load_hardware(name)


def job(model: ModelSpec, gpus: int, *, hardware: str = "dgx-h100", **work: Any) -> Job:
    """Return a job on a cluster of the profiles."""
    return Job(model, cluster(hardware), gpus, Workload(**work))


def plan(gpus: int, global_batch: int, **fields: Any) -> Plan:
    """Return a scalar plan: dp, micro-batches and shards follow from the other degrees."""
    known = Plan(**{"zero": 1, **fields})
    dp = gpus / float(known.tp * known.pp * known.cp)
    follows = {
        "dp": dp,
        "num_microbatches": global_batch / (float(known.micro_batch) * dp),
        "zero_shards": dp * float(known.cp),
    }
    return Plan(**({"zero": 1, **follows} | fields))
