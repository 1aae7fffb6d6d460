"""Clusters and accelerators that ship, one row for each."""

from __future__ import annotations

from typing import Any

from planner.inputs.hardware import Accelerator
from planner.inputs.load_hardware import accelerator_names, clusters_with, load_accelerator, shipped_profiles
from planner.inputs.record import Sourced
from planner.units import GB, GIB, TFLOP

Row = dict[str, Any]


def cluster_rows() -> list[Row]:
    """Return one row for each pool of the clusters that ship."""
    return [
        {
            "name": profile.name,
            "accelerator": pool.accelerator.name,
            "vendor": pool.accelerator.vendor,
            "gpus_per_node": pool.gpus_per_node,
            "scaleup_domain": pool.scaleup_domain,
            "memory_gib": round(pool.accelerator.memory_visible / GIB, 1),
            "bf16_tflops": _peak_tflops(pool.accelerator),
            "nic_gb_per_s": round(pool.nic_bandwidth / GB, 2) if pool.nic_bandwidth else None,
            "price_usd_per_h": _number(pool.price_per_hour),
            "template": profile.template,
        }
        for profile in shipped_profiles()
        for pool in profile.pools
    ]


def accelerator_rows() -> list[Row]:
    """Return one row for each accelerator that ships."""
    return [
        {
            "name": part.name,
            "vendor": part.vendor,
            "memory_gib": round(part.memory_visible / GIB, 1),
            "memory_tb_per_s": round(part.memory_bandwidth / GB / 1000, 3),
            "bf16_tflops": _peak_tflops(part),
            "power_w": _number(part.power),
            "price_usd_per_h": _number(part.price),
            "usual_cluster": part.cluster,
            "clusters": len(clusters_with(part.name)),
            "template": part.template,
        }
        for part in map(load_accelerator, accelerator_names())
    ]


def _peak_tflops(part: Accelerator) -> float | None:
    """Dense 16-bit peak: of fp16 where there is no bf16. [TFLOP/s]"""
    peak = part.peak.get("bf16", part.peak.get("fp16"))
    return None if peak is None else round(peak / TFLOP, 1)


def _number(value: Sourced | None) -> float | None:
    return None if value is None else float(value)
