"""What other functions do to a recipe of NeMo 2.0 that they are given: those of NeMo's benchmarks, and any.

References
----------
.. [1] NeMo 8cfedd72, scripts/performance/helpers.py, ``set_primary_perf_configs`` and what it calls.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from planner.runtimes.imports.python_values import Made
from planner.runtimes.megatron_lm.table import DEGREE_FIELDS, VIRTUAL

PARAMETERS: Final = (
    *("recipe", "task", "num_nodes", "num_gpus_per_node", "mbs", "gbs", "max_steps", "tp_size", "pp_size"),
    *("cp_size", "vp_size", "ep_size", "etp_size"),
)
"""In their order; the others are named."""

PLACES: Final[Mapping[str, tuple[str, ...]]] = {
    "num_nodes": ("trainer", "num_nodes"),
    "num_gpus_per_node": ("trainer", "devices"),
    "mbs": ("data", "micro_batch_size"),
    "gbs": ("data", "global_batch_size"),
    **{f"{name}_size": ("trainer", "strategy", field) for name, field in DEGREE_FIELDS.items()},
    "vp_size": ("trainer", "strategy", VIRTUAL),
    "enable_cuda_graphs": ("model", "config", "enable_cuda_graph"),
}
SCALES: Final = {
    "ds": "bf16_with_fp8_mixed",
    "cs": "bf16_with_fp8_current_scaling_mixed",
    "mxfp8": "bf16_with_mxfp8_mixed",
    "ss": "bf16_with_fp8_subchannel_scaling_mixed",
}
HARMLESS: Final = (
    *("run", "add", "print", "copy", "deepcopy", "main", "dryrun", "launch", "len", "hasattr", "isinstance"),
    *("getattr", "setattr", "str", "repr", "pformat", "pprint", "info", "list", "dict", "append", "build"),
    *("factory", "cli", "pretrain", "finetune", "train", "validate"),
)
"""Functions that set nothing of the recipe that they are given."""


def unfollowed(made: Made) -> list[str]:
    """Return the functions of other files that were given the recipe and may have changed it."""
    parts = [made, *(made.fields.get(name) for name in ("trainer", "data"))]
    handed = [caller for part in parts if isinstance(part, Made) for caller in part.handed]
    names = [caller.kind.rpartition(".")[2] for caller in handed]
    known = {*HARMLESS, "set_primary_perf_configs", "set_exp_logging_configs"}
    return [name for name in names if name and name not in known and not name[0].isupper()]


def benchmarked(made: Made) -> None:
    """Set what NeMo's benchmarks set, but for what the program sets itself."""
    for caller in made.handed:
        if caller.kind.rpartition(".")[2] == "set_primary_perf_configs":
            _set(made, dict(zip(PARAMETERS, caller.args, strict=False)) | caller.fields)


def _set(made: Made, said: Mapping[str, Any]) -> None:
    values = {PLACES[name]: value for name, value in said.items() if name in PLACES}
    strategy = ("trainer", "strategy")
    virtual = (*strategy, "virtual_pipeline_model_parallel_size")
    values[virtual] = None if values.get(virtual) == 1 else values.get(virtual)
    tp = values.get((*strategy, "tensor_model_parallel_size"))
    values[*strategy, "sequence_parallel"] = isinstance(tp, int) and tp > 1
    config = ("model", "config")
    layers, hosted = said.get("recompute_layers"), said.get("activation_offload_layers")
    if isinstance(layers, int) and layers > 0:
        values |= {(*config, "recompute_granularity"): "full", (*config, "recompute_method"): "block"}
        values[*config, "recompute_num_layers"] = layers
    if isinstance(hosted, int) and hosted > 0:
        values |= {(*config, "cpu_offloading"): True, (*config, "cpu_offloading_num_layers"): hosted}
    if said.get("recompute_modules") is not None:
        values[*config, "recompute_granularity"] = "selective"
        values[*config, "recompute_modules"] = said["recompute_modules"]
    if said.get("use_mcore_fsdp") is True:
        values[*strategy, "fsdp"] = "megatron"
        values[*strategy, "ddp", "data_parallel_sharding_strategy"] = "optim_grads_params"
    for place, value in values.items():
        put(made, place, value)
    _precision(made, said)


def _precision(made: Made, said: Mapping[str, Any]) -> None:
    kind = said.get("compute_dtype")
    if kind is None:
        return
    put(made, ("trainer", "plugins", "grad_reduce_in_fp32"), False)
    if str(kind).lower() == "bf16":
        put(made, ("optim", "config", "use_precision_aware_optimizer"), True)
    elif str(kind).lower() == "fp8":
        name = SCALES.get(str(said.get("fp8_recipe") or "ds").lower(), str(said.get("fp8_recipe")))
        plugins = made.fields["trainer"].fields["plugins"]
        plugins.kind = plugins.kind or name


def put(made: Made, place: tuple[str, ...], value: Any) -> None:
    """Set a field below a thing that is made, where the program has not."""
    for name in place[:-1]:
        inner = made.fields.get(name)
        if not isinstance(inner, Made):
            inner = made.fields[name] = Made("")
        made = inner
    made.fields.setdefault(place[-1], value)
