"""What rests in the host's pinned memory: PyTorch hands it out in blocks of powers of two."""

from __future__ import annotations

from collections import Counter

from planner.cost.case import Case
from planner.cost.memory.padding import Parameters, piece_parameters
from planner.inputs.model import Experts
from planner.numeric import Num, ceil, doublings, maximum, power
from planner.plan import Plan

VECTORS = 2e-3
"""Share of a parameter that may be vectors beside a matrix, counted with it and no part of its block. [-]"""


def pinned_share(case: Case, plan: Plan) -> Num:
    r"""Bytes of the blocks that hold a rank's weights in pinned memory, over those of the weights. [-]

    .. math:: \frac{\sum_p 2^{\lceil \log_2 (b\,e_p) \rceil}}{\sum_p b\,e_p}

    FSDP2 pins each parameter's part :math:`e_p` by itself, FSDP1 that of a layer; gradients lie alike. Bytes
    :math:`b` of each element. DeepSpeed's one block of a rank's gradients is left to `HOST_SHARE`, which
    ALST's largest run holds with it.

    References
    ----------
    .. [1] PyTorch 2.13, ``aten/src/ATen/core/CachingHostAllocator.h``, ``allocate``: ``PowerOf2Ceil`` up to
       ``pinned_max_round_threshold``, which has no limit unless it is set.
    .. [2] PyTorch 2.13, ``torch/distributed/fsdp/_fully_shard/_fsdp_param.py``, ``_init_sharded_param``;
       ``torch/distributed/fsdp/_flat_param.py``, ``init_flat_param_attributes``: weights and ``_cpu_grad``.
    """
    each = case.weight_bytes if case.method.trains_base else case.frozen_bytes - case.method.scale_bytes
    if not case.engine.pins or not case.sharding.shards_parameters:
        return 1.0
    held: Num = 0.0
    blocks: Num = 0.0
    for name, count in Counter((*case.model.layers, *_ends(case))).items():
        parts = [*piece_parameters(case, plan, name), *_experts(case, name)]
        sizes = [each * ceil(one.rows / plan.zero_shards) * one.columns for one in parts]
        sizes = [sum(sizes)] if case.engine.pins == "layers" else sizes
        held = held + count * sum(each * one.rows * one.columns for one in parts) / plan.zero_shards
        for size in sizes:
            blocks = blocks + count * size * _rounded(size)
    return blocks / held


def _rounded(nbytes: Num) -> Num:
    """Return a block's bytes over those that it was made for. [-]"""
    wanted = maximum(nbytes * (1.0 - VECTORS), 1.0)
    return maximum(power(2.0, doublings(wanted)) / maximum(nbytes, 1.0), 1.0)


def _ends(case: Case) -> tuple[str, ...]:
    return ("embedding", "tied_head" if case.model.tied_embeddings else "head")


def _experts(case: Case, name: str) -> list[Parameters]:
    """Return a layer's routed experts, whose matrices of a kind are one parameter."""
    ffn = case.model.blocks[name].ffn if name in case.model.blocks else None
    if not isinstance(ffn, Experts):
        return []
    into = Parameters(float(ffn.experts), (1.0 + ffn.gated) * ffn.inner * case.model.hidden)
    return [into, Parameters(float(ffn.experts), float(ffn.inner * case.model.hidden))]
