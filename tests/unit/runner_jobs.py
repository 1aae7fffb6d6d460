"""Jobs for the tests of runtimes: small and full-size models of each kind, on nodes of eight H100."""

from __future__ import annotations

from typing import Final

from planner.inputs.hardware import HardwareProfile
from planner.inputs.model import ModelSpec
from planner.inputs.workload import Workload
from planner.plan import Plan
from planner.runtimes.family import Job

GQA: Final = {"kind": "attention", "heads": 32, "kv_heads": 8, "head_dim": 128}
MLA: Final = {
    "kind": "latent", "heads": 16, "q_lora_rank": 0, "kv_lora_rank": 512, "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64, "v_head_dim": 128,
}  # fmt: skip


def model(name: str, blocks: dict[str, object], layers: list[str], **fields: object) -> ModelSpec:
    """Make a model of 4096 hidden, 128,256 words and 32,768 positions, unless ``fields`` say otherwise."""
    common = {"hidden": 4096, "vocab": 128256, "tied_embeddings": False, "max_positions": 32768}
    return ModelSpec.model_validate({"name": name, "blocks": blocks, "layers": layers} | common | fields)


DENSE: Final = model("dense", {"d": {"mixer": GQA, "ffn": {"kind": "dense", "inner": 14336}}}, ["d"] * 32)
MHA: Final = model(
    "mha",
    {"d": {"mixer": GQA | {"kv_heads": 32}, "ffn": {"kind": "dense", "inner": 11008}}},
    ["d"] * 30,
    vocab=32000,
)
BIASED: Final = model(
    "biased",
    {
        "d": {
            "mixer": GQA | {"heads": 28, "kv_heads": 4, "qkv_bias": True},
            "ffn": {"kind": "dense", "inner": 18944},
        }
    },
    ["d"] * 28,
    hidden=3584,
    vocab=152064,
)
WIDE_HEADS: Final = model(
    "wide-heads",
    {"d": {"mixer": GQA | {"heads": 64, "qk_norm": "head"}, "ffn": {"kind": "dense", "inner": 25600}}},
    ["d"] * 64,
    hidden=5120,
    vocab=151936,
)
TIED: Final = model(
    "tied",
    {"d": {"mixer": GQA | {"head_dim": 64}, "ffn": {"kind": "dense", "inner": 8192}}},
    ["d"] * 16,
    hidden=2048,
    tied_embeddings=True,
)
MOE: Final = model(
    "moe",
    {"m": {"mixer": GQA, "ffn": {"kind": "moe", "experts": 8, "topk": 2, "inner": 14336}}},
    ["m"] * 32,
    vocab=32000,
)
MOE_NORMED: Final = model(
    "moe-normed",
    {
        "m": {
            "mixer": GQA | {"kv_heads": 4, "qk_norm": "head"},
            "ffn": {"kind": "moe", "experts": 128, "topk": 8, "inner": 768},
        }
    },
    ["m"] * 48,
    hidden=2048,
    vocab=151936,
)
LATENT: Final = model(
    "latent",
    {
        "d": {"mixer": MLA, "ffn": {"kind": "dense", "inner": 10944}},
        "m": {
            "mixer": MLA,
            "ffn": {"kind": "moe", "experts": 64, "topk": 6, "inner": 1408, "shared_inner": 2816},
        },
    },
    ["d"] + ["m"] * 26,
    hidden=2048,
    vocab=102400,
)
GPT2: Final = model(
    "gpt2",
    {
        "d": {
            "mixer": {
                "kind": "attention", "heads": 96, "kv_heads": 96, "head_dim": 128, "qkv_bias": True,
                "output_bias": True, "rotary": False,
            },
            "ffn": {"kind": "dense", "inner": 49152, "gated": False, "bias": True},
        }
    },
    ["d"] * 96,
    hidden=12288,
    vocab=50257,
    tied_embeddings=True,
    max_positions=2048,
    learned_positions=True,
    norm="layernorm",
    norm_bias=True,
)  # fmt: skip
WINDOWED: Final = model(
    "windowed",
    {"d": {"mixer": GQA | {"window": 1024}, "ffn": {"kind": "dense", "inner": 14336}}},
    ["d"] * 32,
)

MODELS: Final = (DENSE, MHA, BIASED, WIDE_HEADS, TIED, MOE, MOE_NORMED, LATENT, GPT2, WINDOWED)

HARDWARE: Final = HardwareProfile.model_validate(
    {
        "name": "eight-h100",
        "pools": [
            {
                "accelerator": {
                    "name": "h100-80gb-sxm", "vendor": "nvidia", "arch": "hopper", "memory": "80 GiB",
                    "memory_visible": "79 GiB", "memory_bandwidth": "3.35 TB/s",
                    "peak": {"bf16": "989 TFLOP/s"}, "power": "700 W", "host_link": "64 GB/s",
                },
                "node": {
                    "name": "dgx", "accelerators": 8, "nics": 8, "nic_rate": "400 Gbit/s",
                    "scaleup": {
                        "name": "nvlink",
                        "link": "nvlink", "domain": 8, "bandwidth": "450 GB/s", "pair_bandwidth": "450 GB/s",
                        "efficiency": "0.8", "latency": "3 us",
                    },
                },
                "network": {"name": "ib", "kind": "infiniband", "efficiency": "0.9", "latency": "8 us"},
            }
        ],
    }
)  # fmt: skip


def job(spec: ModelSpec, gpus: int, **work: object) -> Job:
    """Make a job of ``spec`` on ``gpus`` accelerators with a global batch of 512 sequences of 8192 tokens."""
    return Job(spec, HARDWARE, gpus, Workload.model_validate({"seq_len": 8192, "global_batch": 512} | work))


def plan(task: Job, **axes: object) -> Plan:
    """Make the plan with ``axes``; dp, shards and micro-batches follow from the job."""
    degrees = {
        name: float(axes.pop(name, 1)) for name in ("tp", "pp", "vpp", "cp", "ep", "etp", "micro_batch")
    }
    dp = task.gpus / (degrees["tp"] * degrees["pp"] * degrees["cp"])
    passes = task.workload.global_batch / (degrees["micro_batch"] * dp)
    shards = dp * degrees["cp"] if axes.get("zero", 3) else 1.0
    given: dict[str, object] = {"zero_shards": shards, "num_microbatches": passes, "zero": 3}
    return Plan(dp=dp, **degrees, **(given | axes))  # type: ignore[arg-type]
