"""Every shipped profile is whole, cited and within what physics and vendors allow."""

from __future__ import annotations

import re
from typing import Any

import pytest

from planner.inputs.hardware import Accelerator, HardwareProfile
from planner.inputs.load_hardware import (
    accelerator_names,
    cluster_names,
    clusters_with,
    default_cluster,
    hardware_folder,
    load_accelerator,
    load_hardware,
)
from planner.inputs.record import Record, Sourced
from planner.inputs.yaml_file import read_yaml
from tests.cases import every

RIDGE_FLOP_PER_BYTE = (20.0, 1000.0)
URL = re.compile(r"https?://[\w.-]+/\S*|https?://[\w.-]+")
PART_FOLDERS = ("accelerators", "nodes", "networks", "scaleups")

# Cluster to accelerator, accelerators in a node, scale-up domain and line rate of the ports for each of
# them in GB/s, from the user guides of DGX systems and the instance tables of the clouds.
KNOWN = {
    "dgx-a100-40gb": ("a100-40gb-sxm", 8, 8, 25.0),
    "dgx-a100-80gb": ("a100-80gb-sxm", 8, 8, 25.0),
    "dgx-h100": ("h100-80gb-sxm", 8, 8, 50.0),
    "dgx-h200": ("h200-141gb", 8, 8, 50.0),
    "dgx-b200": ("b200-180gb", 8, 8, 50.0),
    "dgx-b300": ("b300", 8, 8, 100.0),
    "gb200-nvl72": ("gb200-186gb", 4, 72, 50.0),
    "gb300-nvl72": ("gb300", 4, 72, 100.0),
    "frontier-mi250x": ("mi250x-gcd", 8, 8, 12.5),
    "mi300x-8": ("mi300x-192gb", 8, 8, 50.0),
    "p4d.24xlarge": ("a100-40gb-sxm", 8, 8, 6.25),
    "p4de.24xlarge": ("a100-80gb-sxm", 8, 8, 6.25),
    "p5.48xlarge": ("h100-80gb-sxm", 8, 8, 50.0),
    "p5en.48xlarge": ("h200-141gb", 8, 8, 50.0),
    "p6-b200.48xlarge": ("b200-180gb", 8, 8, 50.0),
    "a3-highgpu-8g": ("h100-80gb-sxm", 8, 8, 12.5),
    "a3-megagpu-8g": ("h100-80gb-sxm", 8, 8, 25.0),
    "a4x-highgpu-4g": ("gb200-186gb", 4, 72, 50.0),
    "ND96isr_H100_v5": ("h100-80gb-sxm", 8, 8, 50.0),
    "ND96isr_MI300X_v5": ("mi300x-192gb", 8, 8, 50.0),
    "gaudi3-hls-8": ("gaudi3", 8, 8, 75.0),
    "trn2.48xlarge": ("trainium2", 16, 16, 25.0),
    "dgx-1-v100": ("v100-32gb", 8, 8, 6.25),
    "dgx-2": ("v100-32gb", 16, 16, 6.25),
}

# nvidia-smi, from https://thundergolfer.com/blog/nvidia-gpu-memory-capacity
VISIBLE_MIB = {
    "a100-40gb-sxm": 40960,
    "a100-80gb-sxm": 81920,
    "h100-80gb-sxm": 81559,
    "h200-141gb": 143771,
    "l40s": 46068,
    "l4": 23034,
}


@pytest.fixture(scope="module")
def clusters() -> dict[str, HardwareProfile]:
    return {name: load_hardware(name) for name in cluster_names()}


@pytest.fixture(scope="module")
def accelerators() -> dict[str, Accelerator]:
    return {name: load_accelerator(name) for name in accelerator_names()}


def quantities(value: Any, place: str = "") -> list[tuple[str, Sourced]]:
    if isinstance(value, Sourced):
        return [(place, value)]
    if isinstance(value, Record):
        return [leaf for name in type(value).model_fields for leaf in quantities(getattr(value, name), name)]
    if isinstance(value, dict):
        return [leaf for key, item in value.items() for leaf in quantities(item, f"{place}.{key}")]
    if isinstance(value, tuple):
        return [leaf for item in value for leaf in quantities(item, place)]
    return []


@every("name", cluster_names())
def test_every_number_of_a_cluster_has_a_source_that_can_be_opened(
    clusters: dict[str, HardwareProfile], name: str
) -> None:
    numbers = quantities(clusters[name])
    assert len(numbers) >= 10
    assert [(place, number.source) for place, number in numbers if not URL.fullmatch(number.source)] == []


@every("name", cluster_names())
def test_no_shipped_number_stands_as_the_users(clusters: dict[str, HardwareProfile], name: str) -> None:
    assert [place for place, number in quantities(clusters[name]) if number.standing == "user"] == []


@every("name", accelerator_names())
def test_ridge_point_is_that_of_a_real_device(accelerators: dict[str, Accelerator], name: str) -> None:
    part = accelerators[name]
    peak = part.peak.get("bf16", part.peak.get("fp16"))
    low, high = RIDGE_FLOP_PER_BYTE
    assert low < peak / part.memory_bandwidth < high


@every("name", accelerator_names())
def test_visible_memory_is_little_less_than_the_label(
    accelerators: dict[str, Accelerator], name: str
) -> None:
    part = accelerators[name]
    assert 0.9 * part.memory < part.memory_visible <= part.memory


@every("name", accelerator_names())
def test_narrower_types_are_not_slower_than_bf16(accelerators: dict[str, Accelerator], name: str) -> None:
    peak = accelerators[name].peak
    wide = peak.get("bf16", peak.get("fp16"))
    for narrow in ("fp8", "mxfp8", "nvfp4", "mxfp4"):
        assert peak.get(narrow, wide) >= wide
    for wider in ("tf32", "fp32"):
        assert peak.get(wider, wide) <= wide


@every("name", cluster_names())
def test_links_get_slower_outwards(clusters: dict[str, HardwareProfile], name: str) -> None:
    for pool in clusters[name].pools:
        inner = pool.node.package or pool.node.scaleup
        assert inner.bandwidth >= pool.node.scaleup.bandwidth >= pool.nic_bandwidth
        stands_alone = pool.network is None and pool.gpus == pool.scaleup_domain
        assert stands_alone or pool.nic_bandwidth > 0
        assert pool.accelerator.memory_bandwidth > pool.node.scaleup.bandwidth
        for tier in pool.tiers:
            assert 0 < tier.pair_bandwidth <= tier.bandwidth


@every("name", cluster_names())
def test_a_domain_holds_whole_nodes(clusters: dict[str, HardwareProfile], name: str) -> None:
    for pool in clusters[name].pools:
        assert pool.scaleup_domain % pool.gpus_per_node == 0
        package = pool.node.package
        assert package is None or pool.gpus_per_node % package.domain == 0


@every("name", KNOWN)
def test_known_machines_are_as_their_makers_say(name: str) -> None:
    accelerator, per_node, domain, gb_per_s = KNOWN[name]
    pool = load_hardware(name).pool
    assert pool.accelerator.name == accelerator
    assert (pool.gpus_per_node, pool.scaleup_domain) == (per_node, domain)
    assert pool.nic_bandwidth == pytest.approx(gb_per_s * 1e9)


@every("name", VISIBLE_MIB)
def test_visible_memory_is_what_the_driver_reports(accelerators: dict[str, Accelerator], name: str) -> None:
    assert accelerators[name].memory_visible == VISIBLE_MIB[name] * 1024**2


@every("name", accelerator_names())
def test_every_accelerator_stands_in_its_usual_cluster(name: str) -> None:
    assert default_cluster(name) in {load_hardware(cluster).name for cluster in clusters_with(name)}


@every("folder", PART_FOLDERS)
def test_files_are_named_after_what_they_hold_and_no_alias_is_taken(folder: str) -> None:
    owner: dict[str, str] = {}
    for path in sorted(hardware_folder(folder).glob("*.yaml")):
        raw = read_yaml(path)
        assert raw["name"].lower() == path.stem
        for word in (path.stem, *(str(alias).lower() for alias in raw.get("aliases", []))):
            assert owner.setdefault(word, path.stem) == path.stem, f"{word} is also {owner[word]}"


def test_no_two_clusters_share_a_name() -> None:
    owner: dict[str, str] = {}
    for path in hardware_folder().glob("*.yaml"):
        raw = read_yaml(path)
        for word in {path.stem, *(str(alias).lower() for alias in raw.get("aliases", []))}:
            assert owner.setdefault(word, path.stem) == path.stem, f"{word} is also {owner[word]}"


def test_templates_are_few_and_say_what_is_wrong_with_them(accelerators: dict[str, Accelerator]) -> None:
    templates = [part for part in accelerators.values() if part.template]
    assert 3 < len(templates) < len(accelerators) / 3
    assert [part.name for part in templates if len(part.note) < 40] == []


def test_every_shipped_part_is_used_by_a_cluster(clusters: dict[str, HardwareProfile]) -> None:
    pools = [pool for profile in clusters.values() for pool in profile.pools]
    used = {
        "accelerators": {pool.accelerator.name for pool in pools},
        "nodes": {pool.node.name for pool in pools},
        "scaleups": {
            links.name for pool in pools for links in (pool.node.scaleup, pool.node.package) if links
        },
    }
    for folder, names in used.items():
        stems = {path.stem for path in hardware_folder(folder).glob("*.yaml")}
        assert stems - {name.lower() for name in names} == set()
