"""The documents of the contract, key by key, written out by hand."""

from __future__ import annotations

from typing import Any

PLAN_KEYS = [
    "tp", "pp", "vpp", "cp", "ep", "etp", "dp", "zero", "zero_shards", "micro_batch", "num_microbatches",
    "recompute", "sequence_parallel", "cp_method", "schedule", "offload", "stage_layers",
]  # fmt: skip

ESTIMATE_KEYS = [
    ("schema", None),
    ("model", ["name", "params", "active_params"]),
    ("hardware", ["name", "gpus", "gpus_per_node", "scaleup_domain", "idle_gpus"]),
    ("workload", ["seq_len", "global_batch", "precision", "optimizer", "method"]),
    ("runtime", None),
    ("release", None),
    ("settings", None),
    ("defaults", None),
    ("plan", PLAN_KEYS),
    ("feasible", None),
    ("violations", None),
    ("step_time_s", None),
    ("tokens_per_s_per_gpu", None),
    ("model_tflops_per_gpu", None),
    ("mfu", None),
    ("hfu", None),
    ("error_band", None),
    ("error_band_basis", None),
    ("oom_probability", None),
    ("memory_band", None),
    ("extrapolated_share", None),
    (
        "time_s",
        [
            "compute", "tp_comm", "cp_comm", "ep_comm", "pp_comm", "dp_comm", "bubble", "optimizer",
            "offload", "other",
        ],
    ),
    ("memory", ["capacity_gib", "peak_gib", "stages"]),
    ("comm_bytes_per_gpu", ["tp", "cp", "ep", "pp", "dp"]),
    ("price", ["usd_per_hour", "basis", "seller", "kind", "day", "source"]),
    ("cost_usd_per_step", None),
    ("energy_j_per_step", None),
    ("days_to_train", None),
    ("cost_usd_to_train", None),
]  # fmt: skip

STAGE_KEYS = [
    "stage", "moment", "weights_gib", "gradients_gib", "optimizer_gib", "activations_gib", "workspace_gib",
    "allocated_gib", "reserve_gib", "framework_gib", "total_gib",
]  # fmt: skip

SEARCH_KEYS = [
    "schema",
    "plans",
    "baselines",
    "space",
    "nearest",
    "elapsed_s",
    "scan_s",
    "optimality",
    "fewer",
    "variants",
    "measured",
    "on_paper",
    "planless",
]


def key_tree(document: dict[str, Any]) -> list[tuple[str, list[str] | None]]:
    """Return the keys of an estimate, and those of its parts."""
    free = ("defaults", "settings")
    return [
        (key, list(value) if isinstance(value, dict) and key not in free else None)
        for key, value in document.items()
    ]
