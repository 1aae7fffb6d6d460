"""What people write of the links between nodes: read by hand here, and by the reader."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from planner.calibrate.runs.catalogue import Catalogue, shipped_catalogue
from planner.calibrate.runs.defaults import PricedRun, Skip, prepare
from planner.calibrate.runs.hardware import links
from planner.calibrate.runs.networks import FAMILIES, NETWORK_WORDS, stated_network
from planner.calibrate.runs.table import Run
from tests.cases import every

TABLES = sorted((Path(__file__).parents[1] / "measured" / "runs").glob("*.csv"))

RUN = Run(
    line=4,
    id="x-1",
    gpu="h100-80gb-sxm",
    num_gpus=64,
    model="llama3-8b",
    framework="megatron-core 0.12",
    seq_len=8192,
    tp=1,
    pp=1,
    dp=64,
    micro_batch=1,
    global_batch=256,
    step_time_s=6.0,
)


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return shipped_catalogue()


@every(
    ("text", "network", "ports", "gbit"),
    [
        ("nvlink3 + 8x200Gb HDR IB", "infiniband-hdr", 8, 200),
        ("1600 Gbps node-node interconnect (RoCE)", "roce", 1, 1600),
        ("nvlink4 + 400Gb/s RDMA per GPU", "", 8, 400),
        ("simulator config: 150 GB/s in node, 800 Gb/s between nodes", "", 1, 800),
        ("nvlink3 + 4x Omni-Path", "omni-path-100", 4, 100),
        ("nvlink3 + RoCE RDMA", "roce", 0, 0),
        ("8x NVIDIA ConnectX-7 IB NDR 400Gb/s", "infiniband-ndr", 8, 400),
        ("4x ConnectX-7 IB NDR 400Gb/Sec", "infiniband-ndr", 4, 400),
        ("8x ConnectX-7 IB NDR 400Gb/s + 200Gb/s Ethernet NIC", "infiniband-ndr", 8, 400),
        ("1x Ethernet 100Gb/Sec, 8x NVIDIA Quantum-2 CX7 InfiniBand (400Gb/s)", "infiniband-ndr", 8, 400),
        ("Storage: 2x BF3 ConnectX-7 400Gb/s, Compute: 8x BF3 ConnectX-7 400Gb/s", "", 8, 400),
        (
            "Storage+Management: 1x BlueField 2 DPU 100Gb/s, Compute: 4x IB HDR 200Gb/s",
            "infiniband-hdr",
            4,
            200,
        ),
        ("Management: 1x Ethernet 10GB/Sec", "", 0, 0),
        ("InfiniBand; Data bandwidth for GPU-PCIe: 504 GB/s; PCIe-NIC: 500 GB/s", "infiniband", 0, 0),
        ("Ethernet(RoCEv2)", "roce", 0, 0),
        ("Ethernet, Infiniband", "infiniband", 0, 0),
        ("Gig Ethernet", "ethernet", 1, 1),
        ("EFA (3,200 Gbps per node)", "efa", 1, 3200),
        ("Cray Slingshot-11, 4x200Gb/s", "slingshot-11", 4, 200),
        ("InfiniBand, 8 HCAs of 400 Gbit/s", "infiniband", 8, 400),
        ("8 × 400 Gbit/s InfiniBand", "infiniband-ndr", 8, 400),
        ("400 Gb/s x8 RoCE", "roce", 8, 400),
        ("50 GB/s per GPU RDMA", "", 8, 400),
        ("dual-port 2x 200Gb/s HDR", "infiniband-hdr", 4, 200),
        ("25GbE management, 8x400G RoCE", "roce", 8, 400),
        ("NVLink4 900 GB/s", "", 0, 0),
        ("DGX H100 reference architecture", "", 0, 0),
        ("EFAv3", "efa-v3", 0, 0),
        ("", "", 0, 0),
    ],
)
def test_a_network_is_read_from_words(text: str, network: str, ports: int, gbit: float) -> None:
    found = stated_network(text, 8)
    assert (found.network, found.ports, found.rate * 8 / 1e9) == (network, ports, gbit)
    assert found.known


@every(
    ("gpu", "text", "network", "gbit"),
    [
        ("h100", "nvlink4 + EFA", "efa-v2", 400),
        ("a100", "EFA", "efa-v1", 50),
        ("h100", "AWS p5.48xlarge", "efa-v2", 400),
        ("h100", "ND H100 v5", "infiniband-ndr", 400),
        ("h100", "InfiniBand", "infiniband-ndr", 400),
        ("a100", "InfiniBand", "infiniband-hdr", 200),
        ("mi300x", "8x400GbE", "roce", 400),
        ("h100", "8x100GbE", "ethernet-tcp", 100),
        ("h100", "8x NVIDIA ConnectX-7 IB NDR 400Gb/s", "infiniband-ndr", 400),
    ],
)
def test_a_family_is_the_generation_that_clusters_with_the_accelerator_have(
    gpu: str, text: str, network: str, gbit: float, catalogue: Catalogue
) -> None:
    pool = catalogue.clusters(gpu, 8, text)[1].pool
    assert pool.network is not None
    assert (pool.network.name, pool.nic_bandwidth * 8 / 1e9) == (network, gbit)


@every(
    ("gpu", "size", "pair", "fourfold"),
    [("h200", 8, 450, 450), ("h200", 4, 150, 450), ("a100", 4, 100, 300), ("gb200", 4, 900, 900)],
)
def test_a_board_of_four_has_no_switch(
    gpu: str, size: int, pair: float, fourfold: float, catalogue: Catalogue
) -> None:
    """Two ranks have a third of their links between them, four all; an NVL72's node is part of its rack."""
    links = catalogue.clusters(gpu, size, "")[1].pool.node.scaleup
    rates = [min(links.bandwidth, links.pair_bandwidth * others) / 1e9 for others in (1, 3)]
    assert rates == pytest.approx([pair, fourfold])


@every("text", ["warp drive", "8x NVIDIA H100", "nvlink4 + ultra fast"])
def test_words_that_mean_nothing_known_are_refused_where_a_run_leaves_its_node(
    text: str, catalogue: Catalogue
) -> None:
    found = prepare(RUN.with_values({"interconnect": text}), catalogue)
    assert isinstance(found, Skip)
    assert "row 4, column interconnect: found" in found.reason
    inside = RUN.with_values({"interconnect": text, "num_gpus": 8, "dp": 8, "step_time_s": 60.0})
    assert isinstance(prepare(inside, catalogue), PricedRun)


@every(
    ("text", "told"),
    [
        ("8x400Gb/s NDR", False),
        ("NDR", True),
        ("8x InfiniBand", True),
        ("100Gb/s IB", True),
        ("nvlink4", True),
    ],
)
def test_what_is_taken_of_a_network_is_listed(text: str, told: bool, catalogue: Catalogue) -> None:
    found = prepare(RUN.with_values({"interconnect": text}), catalogue)
    assert isinstance(found, PricedRun)
    assert found.defaults.get("interconnect") == (links(found.job.hardware) if told else None)


def test_each_kind_is_one_that_ships(catalogue: Catalogue) -> None:
    names = {name for _, name in NETWORK_WORDS}
    assert [
        name
        for name in names | set(FAMILIES.values())
        if name not in FAMILIES and not catalogue.network(name)
    ] == []


def test_the_words_of_all_measured_tables_are_understood() -> None:
    texts = set()
    for path in TABLES:
        with path.open(encoding="utf-8", newline="") as lines:
            texts |= {row.get("interconnect", "") for row in csv.DictReader(lines)}
    assert len(texts) > 10
    assert [text for text in sorted(texts) if stated_network(text, 8).strange] == []


def test_a_row_without_any_batch_is_refused(catalogue: Catalogue) -> None:
    """Seconds and bytes of a step are those of its sequences: a guess was 784 GiB on 80 GB devices."""
    found = prepare(RUN.with_values({"micro_batch": None, "global_batch": None}), catalogue)
    assert isinstance(found, Skip)
    assert "column global_batch: found blank beside micro_batch" in found.reason


@every(
    ("framework", "zero", "stated"),
    [
        ("torchtitan 0.2", "", False),
        ("deepspeed", "", False),
        ("maxtext", "", False),
        ("deepspeed zero-3", "", True),
        ("pytorch fsdp", "", True),
        ("torchtitan", "hsdp:8", True),
        ("deepspeed", "2", True),
    ],
)
def test_a_layout_is_taken_only_where_it_is_said(
    framework: str, zero: str, stated: bool, catalogue: Catalogue
) -> None:
    blank: dict[str, object] = {"framework": framework, "zero": zero, "tp": None, "pp": None, "dp": None}
    found = prepare(RUN.with_values({**blank, "flash_attn": 2}), catalogue)
    if stated:
        assert isinstance(found, PricedRun)
        assert (found.plan.tp, found.plan.dp) == (1, 64)
    else:
        assert isinstance(found, Skip)
        assert "column tp: found blank" in found.reason


@every(
    ("changes", "words"),
    [
        ({"model": "Nemotron-H 8B"}, "state-space layers"),
        ({"model": "Kimi-Linear-48B"}, "linear attention"),
        ({"model": "GLM-5.2"}, "an indexer that picks the keys"),
        ({"model": "flan-t5-xxl"}, "an encoder"),
        ({"model": "Llama-3_3-Nemotron-Super-49B-v1"}, "a block of its own for each layer"),
        ({"notes": "hybrid-override-pattern=M-M*"}, "state-space layers"),
        ({"notes": "multi-latent-attention=True"}, "latent attention"),
        ({"notes": "x; cuda-graph-modules=[attn mamba moe_router]"}, "state-space layers"),
        ({"notes": "rl-offload-optimizer-during-inference=True"}, "generation of text"),
    ],
)
def test_what_no_model_record_expresses_is_refused(
    changes: dict[str, object], words: str, catalogue: Catalogue
) -> None:
    shape: dict[str, object] = {"model": "own", "num_layers": 32, "hidden": 4096, "heads": 32}
    found = prepare(RUN.with_values(shape | changes), catalogue)
    assert isinstance(found, Skip)
    assert "column model: found" in found.reason
    assert words in found.reason


@every("model", ["Nemotron4 15b", "bert-h1024-l24", "own", "gpt2-52B", "llama-33h"])
def test_plain_models_are_not(model: str, catalogue: Catalogue) -> None:
    shape: dict[str, object] = {"model": model, "num_layers": 24, "hidden": 1024, "heads": 16}
    notes = "no FLOP check (dims not in this repository or hybrid model); is_encoder_decoder=False"
    assert isinstance(prepare(RUN.with_values({**shape, "notes": notes}), catalogue), PricedRun)


@every(
    ("notes", "fused"),
    [
        ("kernel=flash_attention2; rms_kernel=1", True),
        ("flash_attention2 + RMS kernel", True),
        ("rms_kernel=0", False),
    ],
)
def test_the_norm_kernel_of_the_notes_is_read(notes: str, fused: bool, catalogue: Catalogue) -> None:
    found = prepare(RUN.with_values({"notes": notes}), catalogue)
    assert isinstance(found, PricedRun)
    assert found.runtime.traits.kernels.fused_norm is fused
    assert "fused_norm" not in found.defaults


def test_extra_prediction_layers_and_the_optimizer_of_the_notes_are_read(catalogue: Catalogue) -> None:
    shape: dict[str, object] = {"model": "own", "num_layers": 24, "hidden": 1024, "heads": 16}
    found = prepare(RUN.with_values({**shape, "notes": "mtp-num-layers=2; optimizer=muon"}), catalogue)
    assert isinstance(found, PricedRun)
    assert found.job.model.prediction is not None
    assert (found.job.model.prediction.layers, found.job.workload.optimizer) == (2, "muon")
    other = prepare(RUN.with_values({**shape, "notes": "optimizer=lars"}), catalogue)
    assert isinstance(other, Skip)
    assert "optimizer=lars" in other.reason
