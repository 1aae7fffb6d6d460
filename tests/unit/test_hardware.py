"""Clusters by name, alias and path; parts composed; every fault of a file told at once."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from planner.errors import InputError
from planner.inputs import yaml_file
from planner.inputs.load_hardware import (
    accelerator_names,
    clusters_with,
    default_cluster,
    load_accelerator,
    load_hardware,
)
from tests.cases import every

GB = 1e9
WHOLE = """
name: attic
pools:
  - accelerator:
      name: card
      vendor: Maker
      arch: ampere
      memory: 24 GiB
      memory_visible: 23 GiB
      memory_bandwidth: 0.9 TB/s
      peak: {bf16: 70 TFLOP/s}
      power: 350 W
      price: 0.5 USD/h
    node:
      name: box
      accelerators: 4
      nics: 1
      nic_rate: 100 Gbit/s
      scaleup:
        name: bus
        link: pcie4
        domain: 4
        topology: host
        bandwidth: 31 GB/s
        pair_bandwidth: 31 GB/s
        efficiency: 70%
        latency: 5 us
    network: {name: lan, kind: ethernet, efficiency: 0.5, latency: 30 us}
"""


def written(folder: Path, text: str, name: str = "cluster.yaml") -> str:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def faults(text: str) -> dict[str, str]:
    """Load and return what was told of each place, without the file's name."""
    with pytest.raises(InputError) as caught:
        load_hardware(text)
    return {problem.where.removeprefix(f"{text}: "): str(problem) for problem in caught.value.problems}


@every(
    ("spelling", "name"),
    [
        ("dgx-h100", "dgx-h100"),
        ("DGX-H100", "dgx-h100"),
        ("dgx-a100", "dgx-a100-80gb"),
        ("p5", "p5.48xlarge"),
        ("aws-p5.48xlarge", "p5.48xlarge"),
        ("GCP-a3-megagpu-8g", "a3-megagpu-8g"),
        ("ND96isr_H100_v5", "ND96isr_H100_v5"),
        ("azure-nd96isr_h100_v5", "ND96isr_H100_v5"),
        ("Standard_ND96isr_MI300X_v5", "ND96isr_MI300X_v5"),
        ("rtx-4090-8-pcie", "rtx4090-8-pcie"),
    ],
)
def test_a_cluster_has_many_spellings(spelling: str, name: str) -> None:
    assert load_hardware(spelling).name == name


@every(
    ("spelling", "name"),
    [
        ("a100", "a100-80gb-sxm"),
        ("a100-sxm-80gb", "a100-80gb-sxm"),
        ("H100-SXM", "h100-80gb-sxm"),
        ("h100", "h100-80gb-sxm"),
        ("mi250x", "mi250x-gcd"),
        ("4090", "rtx-4090"),
    ],
)
def test_an_accelerator_has_many_spellings(spelling: str, name: str) -> None:
    assert load_accelerator(spelling).name == name


def test_a_bare_accelerator_is_its_usual_cluster_and_a_count_is_no_part_of_one() -> None:
    assert load_hardware("h100-sxm").name == "dgx-h100"
    assert load_hardware("A100 40GB").name == "dgx-a100-40gb"
    with pytest.raises(InputError, match=r"--hardware: found '8xH100'.*nearest: h100-80gb-sxm"):
        load_hardware("8xH100", "--hardware")


def test_an_unknown_accelerator_never_gets_anothers_numbers() -> None:
    with pytest.raises(InputError, match=r"nearest: .*h100"):
        load_accelerator("h1000")
    with pytest.raises(InputError, match=r"nearest: .*dgx-h100"):
        load_hardware("dgx-h1000")


def test_the_usual_cluster_of_an_accelerator_is_documented_in_its_file() -> None:
    assert default_cluster("a100") == "dgx-a100-80gb"
    assert default_cluster("gb200-186gb") == "gb200-nvl72"
    assert "dgx-a100-80gb" in clusters_with("a100-80gb-sxm")


def test_tiers_of_a_dgx_h100_by_hand() -> None:
    inner, outer = load_hardware("dgx-h100").pool.tiers
    assert (inner.name, inner.domain, inner.bandwidth) == ("nvlink4", 8.0, pytest.approx(0.75 * 450 * GB))
    assert (outer.name, outer.domain, outer.bandwidth) == ("infiniband", math.inf, pytest.approx(42.5 * GB))


def test_a_mesh_keeps_the_rate_of_a_pair() -> None:
    mesh = load_hardware("mi300x-8").pool.tiers[0]
    assert mesh.pair_bandwidth == pytest.approx(47.68 * GB)
    assert mesh.bandwidth == pytest.approx(313.6 * GB)


def test_links_follow_a_changed_node_whatever_was_asked_of_the_cluster_before() -> None:
    whole = load_hardware("dgx-h100")
    assert whole.pool.tiers[0].domain == 8
    half = whole.with_node_size(4)
    assert (half.pool.gpus_per_node, half.pool.tiers[0].domain) == (4, 4)
    assert half.pool.nic_bandwidth == pytest.approx(whole.pool.nic_bandwidth)
    with pytest.raises(InputError, match=r"a divisor of the 8 accelerators.*nearest: 2"):
        whole.with_node_size(3)


def test_the_dies_of_a_module_are_a_tier_of_their_own() -> None:
    package, node, network = load_hardware("frontier-mi250x").pool.tiers
    assert (package.domain, node.domain, network.domain) == (2.0, 8.0, math.inf)
    assert package.bandwidth == pytest.approx(150 * GB)
    assert network.bandwidth == pytest.approx(0.7 * 4 * 25 / 8 * GB)


def test_numbers_remember_text_source_and_standing() -> None:
    memory = load_hardware("dgx-h100").pool.accelerator.memory_visible
    assert (memory.text, memory.standing) == ("81559 MiB", "measured")
    assert memory.source.startswith("https://")


@every(
    ("name", "usable"),
    [
        ("h100-80gb-sxm", 79.11),
        ("a100-40gb-sxm", 39.5),
        ("gb200-186gb", 184.31),
        ("gb300", 276.5),
        ("t4", 14.75),
        ("b200-180gb", 178.35),
        ("a10", 21.99),
        ("a10g", 21.99),
        ("a30", 23.53),
        ("l40", 44.40),
        ("rtx-3090", 23.69),
        ("rtx-4090", 23.61),
        ("rtx-5090", 31.36),
        ("rtx-a6000", 47.53),
        ("rtx-pro-6000-server", 94.97),
        ("v100-16gb", 15.77),
        ("gh200-96gb", 94.50),
        ("h200-141gb", 139.72),
        ("h100-94gb-nvl", 93.00),
    ],
)
def test_processes_have_what_pytorch_calls_the_total_capacity(name: str, usable: float) -> None:
    """As its message prints it where memory runs out; what the driver reports is more."""
    assert load_accelerator(name).memory_usable / 2**30 == pytest.approx(usable, abs=0.006)


def test_no_nvidia_card_gives_processes_all_that_its_label_says() -> None:
    """Drivers keep 0.8% and more of every card that a message was found for."""
    cards = [load_accelerator(name) for name in accelerator_names()]
    nvidia = [card for card in cards if card.vendor == "NVIDIA"]
    assert len(nvidia) > 30
    assert [card.name for card in nvidia if card.memory_usable > 0.993 * card.memory] == []


def test_a_file_that_holds_everything(tmp_path: Path) -> None:
    profile = load_hardware(written(tmp_path, WHOLE))
    pool = profile.pool
    assert pool.tiers[0].host_staged
    assert pool.tiers[0].bandwidth == pytest.approx(21.7 * GB)
    assert pool.nic_bandwidth == pytest.approx(3.125 * GB)
    assert pool.price_per_hour == 0.5
    assert pool.accelerator.memory.standing == "user"


def test_parts_by_name_file_and_base(tmp_path: Path) -> None:
    written(tmp_path, "name: fast\nkind: roce\nefficiency: 0.9\nlatency: 4 us\n", "fast.yaml")
    text = """
name: mine
sources: {bill: "https://example.org/bill"}
pools:
  - accelerator: h100
    node: {base: dgx-h100, name: thin, nics: 2}
    network: fast.yaml
    gpus: 16
    price: {value: 2 USD/h, source: bill}
  - accelerator: {base: a100-80gb-sxm, name: capped, power: 300 W}
    node: dgx-a100-80gb
    network: {base: roce, efficiency: 60%}
"""
    first, second = load_hardware(written(tmp_path, text)).pools
    assert (first.accelerator.name, first.node.name, first.node.nics) == ("h100-80gb-sxm", "thin", 2)
    assert first.nic_bandwidth == pytest.approx(12.5 * GB)
    assert first.network is not None
    assert (first.network.name, first.network.efficiency) == ("fast", 0.9)
    assert first.price_per_hour is not None
    assert first.price_per_hour.source == "https://example.org/bill"
    assert (second.accelerator.power, second.accelerator.peak["bf16"]) == (300.0, 312e12)
    assert second.accelerator.memory.source.startswith("https://www.nvidia.com/")
    assert second.network is not None
    assert second.network.efficiency == pytest.approx(0.6)


def test_without_a_network_the_domain_is_all_there_is(tmp_path: Path) -> None:
    text = "\n".join(line for line in WHOLE.splitlines() if "network:" not in line)
    pool = load_hardware(written(tmp_path, text)).pool
    assert len(pool.tiers) == 1
    assert pool.max_gpus == 4.0
    assert load_hardware("dgx-h100").pool.max_gpus == math.inf


def test_all_faults_of_a_file_at_once(tmp_path: Path) -> None:
    broken = (
        WHOLE.replace("memory: 24 GiB", "memory: 24")
        .replace("0.9 TB/s", "0.9 TFLOP/s")
        .replace("power: 350 W", "pwoer: 350 W")
        .replace("efficiency: 70%", "efficiency: 7")
        .replace("accelerators: 4", "accelerators: 0")
        .replace("topology: host", "topology: cube")
    )
    told = faults(written(tmp_path, broken))
    pool = "pools[0]"
    assert "no unit; accepted: B, kB" in told[f"{pool}.accelerator.memory"]
    assert "unit 'TFLOP/s'; accepted: B/s" in told[f"{pool}.accelerator.memory_bandwidth"]
    assert "unknown key" in told[f"{pool}.accelerator.pwoer"]
    assert "share above 0 and at most 1" in told[f"{pool}.node.scaleup.efficiency"]
    assert "more than 0" in told[f"{pool}.node.accelerators"]
    assert "switch, mesh, torus, host" in told[f"{pool}.node.scaleup.topology"]
    assert len(told) == 6


def test_unknown_parts_are_told_with_the_nearest_and_with_the_other_faults(tmp_path: Path) -> None:
    text = """
name: mine
pools:
  - {accelerator: h100-80gb-smx, node: dgx-h101, network: infiniband-ndr, gpus: -8}
"""
    told = faults(written(tmp_path, text))
    assert "h100-80gb-sxm" in told["pools[0].accelerator"].split("nearest: ")[1]
    assert "dgx-h100" in told["pools[0].node"].split("nearest: ")[1]
    assert "more than 0" in told["pools[0].gpus"]
    assert len(told) == 3


@every(
    ("change", "place"),
    [
        (("24 GiB", "0 GiB"), "pools[0].accelerator.memory"),
        (("peak: {bf16: 70 TFLOP/s}", "peak: {}"), "pools[0].accelerator.peak"),
        (("0.9 TB/s", "-1 TB/s"), "pools[0].accelerator.memory_bandwidth"),
        (("bandwidth: 31 GB/s", "bandwidth: 31 Gb/s"), "pools[0].node.scaleup.bandwidth"),
        (("pools:", "sources: 3\npools:"), "sources"),
    ],
)
def test_a_number_that_cannot_be_is_refused(tmp_path: Path, change: tuple[str, str], place: str) -> None:
    assert place in faults(written(tmp_path, WHOLE.replace(*change)))


@every("pools", ["[]", "3", "[4]", "null"])
def test_a_cluster_has_pools(tmp_path: Path, pools: str) -> None:
    told = faults(written(tmp_path, f"name: none\npools: {pools}\n"))
    assert [where for where in told if where.startswith("pools")]


def test_loading_reads_only_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def noted(path: Path) -> str:
        read.append(path.name)
        return path.read_text(encoding="utf-8")

    monkeypatch.setattr(yaml_file, "read_text", noted)
    load_hardware("dgx-h100")
    assert set(read) <= {
        "dgx-h100.yaml",
        "h100-80gb-sxm.yaml",
        "nvlink4-switch-8.yaml",
        "infiniband-ndr.yaml",
        "constants.yaml",
    }
    assert len(read) <= 6
