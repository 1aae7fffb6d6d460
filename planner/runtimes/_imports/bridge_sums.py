"""What Megatron-Bridge checks of its fields beside what Megatron-LM checks.

Read in Megatron-Bridge 067f987d, training/config.py, ``ConfigContainer.validate``, and
training/comm_overlap.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import prod
from typing import Any, Final

from planner.errors import Problem
from planner.runtimes._imports._sheet import Imported
from planner.units import is_whole

GRAPHS: Final = ("none", "local", "transformer_engine", "full_iteration")
COUNTS: Final = ("kv_channels", "num_moe_experts", "moe_shared_expert_intermediate_size")
STATES: Final = ("exp_avg_dtype", "exp_avg_sq_dtype", "main_params_dtype")

Fault = tuple[str, str, str]


def bridge_sums(said: Mapping[str, Any], root: str, found: Imported, where: str) -> Imported:
    """Return what was found with a fault for each field that Megatron-Bridge would refuse.

    ``said`` has the fields of a ``ConfigContainer`` below ``root``.
    """
    fields = {key.removeprefix(root): value for key, value in said.items() if key.startswith(root)}
    faults = [*_values(fields), *_together(fields, found.options)]
    known = {problem.where for _, problem in found.faults}
    new = [("", Problem(f"{where}: {key}", text, expected)) for key, text, expected in faults]
    return replace(found, faults=(*found.faults, *(pair for pair in new if pair[1].where not in known)))


def _values(fields: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield fields whose value alone is wrong."""
    for name in COUNTS:
        if fields.get(f"model.{name}") in (0, "0"):
            yield name, "0", "1 or more, or None"
    for name in ("hidden_dropout", "attention_dropout"):
        share = fields.get(f"model.{name}")
        if isinstance(share, int | float) and not 0 <= share <= 1:
            yield name, str(share), "a share from 0 to 1"
    graphs = fields.get("model.cuda_graph_impl")
    if graphs is not None and graphs not in GRAPHS:
        yield "cuda_graph_impl", repr(graphs), f"one of {', '.join(GRAPHS)}"
    if fields.get("model.fine_grained_activation_offloading") is True:
        expected = "false: activations of single modules in host memory have no price"
        yield "fine_grained_activation_offloading", "true", expected
    aware = fields.get("optimizer.use_precision_aware_optimizer") is True
    for name in STATES:
        if not aware and fields.get(f"optimizer.{name}") not in (None, "torch.float32"):
            yield (
                name,
                str(fields[f"optimizer.{name}"]),
                "torch.float32, or use_precision_aware_optimizer too",
            )


def _together(fields: Mapping[str, Any], options: Mapping[str, str]) -> Iterator[Fault]:
    """Yield fields that another contradicts."""
    degrees = {
        name: int(options[name]) for name in ("tp", "pp", "cp", "ep") if is_whole(options.get(name, ""))
    }
    length, tokens = fields.get("model.seq_length"), fields.get("dataset.seq_length")
    if length is not None and tokens is not None and length != tokens:
        yield "seq_length", f"{length} of the model and {tokens} of the data", "the same in both"
    if fields.get("model.cpu_offloading") is True and degrees.get("pp", 1) > 1:
        yield "cpu_offloading", f"with {degrees['pp']} pipeline stages", "one stage"
    if fields.get("dist.use_megatron_fsdp") is True and fields.get("ddp.use_megatron_fsdp") is not True:
        yield "dist.use_megatron_fsdp", "without ddp.use_megatron_fsdp", "the same in both"
    sizes = fields.get("model.hierarchical_context_parallel_sizes")
    whole = isinstance(sizes, list | tuple) and all(type(size) is int for size in sizes)
    if whole and prod(sizes or ()) != degrees.get("cp", 1):
        yield "hierarchical_context_parallel_sizes", str(sizes), f"a product of {degrees.get('cp', 1)}"
    group = fields.get("model.microbatch_group_size_per_vp_stage")
    if type(group) is int and group < degrees.get("pp", 1):
        yield "microbatch_group_size_per_vp_stage", str(group), f"{degrees.get('pp', 1)} stages or more"
    yield from _exchanges(fields, degrees)
    yield from _copies(fields, options, degrees)


def _exchanges(fields: Mapping[str, Any], degrees: Mapping[str, int]) -> Iterator[Fault]:
    overlap = fields.get("comm_overlap.overlap_moe_expert_parallel_comm") is True
    name = "overlap_moe_expert_parallel_comm"
    if overlap and degrees.get("ep", 1) < 2:
        yield name, "without expert parallelism", "expert_model_parallel_size of 2 or more"
    if overlap and fields.get("model.recompute_granularity") == "full":
        yield name, "with full recomputation", "selective recomputation, or none"
    if fields.get("comm_overlap.delay_wgrad_compute") is True and not overlap:
        yield "delay_wgrad_compute", f"without {name}", "both"


def _copies(
    fields: Mapping[str, Any], options: Mapping[str, str], degrees: Mapping[str, int]
) -> Iterator[Fault]:
    copies, gpus = fields.get("ddp.num_distributed_optimizer_instances"), options.get("gpus", "")
    name = "num_distributed_optimizer_instances"
    if type(copies) is not int:
        return
    shards = int(gpus) // max(1, degrees.get("tp", 1) * degrees.get("pp", 1)) if is_whole(gpus) else None
    if copies < 1:
        yield name, str(copies), "1 or more"
    elif shards and shards % copies:
        yield name, str(copies), f"a divisor of {shards} data-parallel ranks"
