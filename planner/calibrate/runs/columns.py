"""The columns of a run table by subject: where a run is from, what it trained, how, and what was measured."""

from __future__ import annotations

from planner.dataclasses import dataclass


@dataclass(frozen=True)
class RunSource:
    """Where a run stands, and on what it ran."""

    line: int
    id: str
    source: str = ""
    ref: str = ""
    gpu: str = ""
    gpus_per_node: int | None = None
    num_gpus: int | None = None
    interconnect: str = ""


@dataclass(frozen=True)
class RunModel:
    """What was trained, and on sequences of which length."""

    model: str = ""
    num_layers: int | None = None
    hidden: int | None = None
    ffn_hidden: int | None = None
    gated_mlp: int | None = None
    heads: int | None = None
    kv_heads: int | None = None
    head_dim: int | None = None
    vocab: int | None = None
    tied_embeddings: int | None = None
    seq_len: int | None = None
    experts: int | None = None
    topk: int | None = None
    moe_ffn: int | None = None
    n_moe_layers: int | None = None
    shared_experts: int | None = None
    params_b: float | None = None


@dataclass(frozen=True)
class RunLayout:
    """The program that ran, its degrees and its techniques."""

    framework: str = ""
    tp: int | None = None
    pp: int | None = None
    vpp: int | None = None
    cp: int | None = None
    ep: int | None = None
    etp: int | None = None
    dp: int | None = None
    cp_method: str = ""
    zero: str = ""
    seq_parallel: int | None = None
    micro_batch: int | None = None
    global_batch: int | None = None
    recompute: str = ""
    flash_attn: int | None = None
    precision: str = ""
    schedule: str = ""
    offload: str = ""
    overlap: str = ""


@dataclass(frozen=True)
class RunFigures:
    """What the source prints, and in words."""

    step_time_s: float | None = None
    tokens_per_s_per_gpu: float | None = None
    tflops_per_gpu: float | None = None
    flops_convention: str = ""
    mfu_pct: float | None = None
    hfu_pct: float | None = None
    peak_mem_gib: float | None = None
    oom: int | None = None
    notes: str = ""
    memory_kind: str = ""
    mark: str = ""
