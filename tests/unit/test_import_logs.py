"""Texts that real machines printed: their figures come out, and what is wrong with them is told.

The expected figures are those that stand in the texts, or follow from them by hand.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from planner.calibrate.measured.links import Sample, link_of
from planner.calibrate.measured.printed import ImportedLog, gather, imported
from planner.errors import InputError
from planner.inputs.import_logs import read_log
from planner.inputs.import_logs.ibstat import read_ibstat
from planner.inputs.import_logs.nccl_tests import NcclTest, read_nccl_tests
from planner.inputs.import_logs.smi import Smi, read_smi
from planner.inputs.import_logs.topology import Topology, read_topology
from planner.inputs.load_hardware import load_hardware
from planner.units import MIB
from tests.cases import every
from tests.cli.command import planner_in

LOGS = Path(__file__).parent / "data" / "logs"


def read_tests(name: str) -> tuple[NcclTest, ...]:
    log = read_log(LOGS / name)
    assert isinstance(log, tuple)
    assert isinstance(log[0], NcclTest)
    return log  # type: ignore[return-value]


def bring(*names: str, base: str = "", in_place: bool = False) -> ImportedLog:
    evidence = gather([(name, read_log(LOGS / name)) for name in names])
    return imported(evidence, base, "mine", in_place)


def pool(result: ImportedLog) -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = result.content["pools"][0]
    return found


def test_a_test_over_two_nodes_is_read_whole() -> None:
    (test,) = read_tests("h100_two_nodes.txt")
    assert (test.operation, test.ranks, test.hosts) == ("all_reduce", 16, 2)
    assert test.device == "NVIDIA H100 80GB HBM3"
    assert [row.nbytes for row in test.rows] == [8, 1024, 32768, 1048576, 33554432, 1073741824, 8589934592]
    assert test.rows[-1].out_of_place == pytest.approx(0.047535)
    assert test.rows[-1].in_place == pytest.approx(0.047743)
    assert test.rows[-1].bus_rate == pytest.approx(338.82e9)


def test_two_tests_in_one_text_are_two_whatever_the_version_writes() -> None:
    one, two = read_tests("mi300x.txt")
    assert (one.ranks, one.hosts, len(one.rows)) == (8, 1, 5)
    assert (two.ranks, two.hosts, len(two.rows)) == (16, 2, 5)
    assert one.device == two.device == "AMD Instinct MI300X"


def test_an_operation_that_nothing_names_follows_from_the_two_bandwidths() -> None:
    (test,) = read_tests("gb200_nvl72.txt")
    assert (test.operation, test.ranks, test.hosts) == ("all_reduce", 72, 0)


@every(
    ("name", "operation"),
    [("all_gather_perf.txt", "all_gather"), ("run_alltoall_perf_2.log", "all_to_all")],
)
def test_a_file_name_tells_the_operation(name: str, operation: str) -> None:
    text = "# Rank  0 Pid 1 on a device 0 [0x01] X\n# Rank  1 Pid 2 on a device 1 [0x02] X\n"
    text += "  1048576  262144  float  none  -1  100.0  10.49  5.24  0  100.0  10.49  5.24  0\n"
    (test,) = read_nccl_tests(text, name)
    assert test.operation == operation


def test_the_old_format_without_a_root_is_read() -> None:
    text = (
        "# all_reduce_perf\n# Rank  0 Pid 1 on a device 0 [0x01] X\n# Rank  1 Pid 2 on a device 1 [0x02] X\n"
    )
    text += "  33554432  8388608  float  sum  1464.2  22.92  22.92  1e-6  1458.1  23.01  23.01  N/A\n"
    (test,) = read_nccl_tests(text, "old.txt")
    assert test.rows[0].out_of_place == pytest.approx(1464.2e-6)


def ranks(count: int, hosts: int = 1, pid: int = 1) -> str:
    """Heading lines of so many ranks."""
    each = count // hosts
    return "".join(
        f"#  Rank {rank:2d} Group  0 Pid {pid + rank} on   node{rank // each} device  {rank % each} "
        f"[0000:{rank:02x}:00] NVIDIA H100 80GB HBM3\n"
        for rank in range(count)
    )


def test_old_tests_without_reduction_have_no_column_for_it() -> None:
    """As in NVIDIA/nccl-tests#78 and NVIDIA/nccl#644: size, count, type, then the times; 64 and 8 ranks."""
    text = "# alltoall_perf -b 256M -e 512M\n" + ranks(64, 8)
    text += "  268435456  1048576  float   520935  0.52  0.51  0e+00   519562  0.52  0.51  1e+00\n"
    text += "  536870912  2097152  float  1041974  0.52  0.51  0e+00  1041299  0.52  0.51  1e+00\n"
    (test,) = read_nccl_tests(text, "a.txt")
    assert (test.operation, test.ranks, test.hosts) == ("all_to_all", 64, 8)
    assert [row.out_of_place for row in test.rows] == [pytest.approx(0.520935), pytest.approx(1.041974)]
    text = ranks(8) + "  65536  2048  float  52.01  1.26  1.10  0e+00  50.09  1.31  1.14  0e+00\n"
    (test,) = read_nccl_tests(text, "all_gather_perf.txt")
    assert test.rows[0].in_place == pytest.approx(50.09e-6)


@every("label", ["[1,0]<stdout>:", "[0] ", "0: ", "[1,12]<stdout>: "])
def test_the_labels_of_launchers_are_passed_over(label: str) -> None:
    """Both ``mpirun --tag-output`` and ``srun --label`` put the rank before each line (NVIDIA/nccl#1453)."""
    text = "# all_reduce_perf -b 8\n" + ranks(16, 2)
    text += "  1048576  262144  float  sum  -1  75.00  13.98  26.21  0  74.10  14.15  26.53  0\n"
    labelled = "".join(f"{label}{line}\n" for line in text.splitlines())
    assert read_nccl_tests(labelled, "a.txt") == read_nccl_tests(text, "a.txt")


def test_the_newest_format_is_read() -> None:
    """Version 2.20 widens the last column and names itself first (as in NVIDIA/dgx-spark-playbooks#103)."""
    text = "# nccl-tests version 2.20.0 (b4d5bee) nccl-headers=23102 nccl-library=23102\n"
    text += "# Collective test starting: all_gather_perf\n"
    text += "# nThread 1 nGpus 1 minBytes 8192 maxBytes 8192 step: 2(factor) unalign: 0\n#\n# Using devices\n"
    text += ranks(2, 2)
    text += "#  size  count  type  redop  root  time  algbw  busbw  #wrong  time  algbw  busbw  #wrong\n"
    text += "  0  0  float  none  -1  5.70  0.00  0.00       0  5.54  0.00  0.00       0\n"
    text += (
        "  8388608  2097152  float  none  -1  400.00  20.97  10.49       0  398.00  21.08  10.54       0\n"
    )
    (test,) = read_nccl_tests(text, "a.txt")
    assert (test.operation, test.ranks, test.hosts, len(test.rows)) == ("all_gather", 2, 2, 1)


def test_a_test_that_is_no_collective_is_not_taken_for_one() -> None:
    """Two ranks that send to one another have the rates of an all-reduce (as in NVIDIA/nccl-tests#214)."""
    row = "  8192  2048  float  sum  -1  31.76  0.26  0.26  0  31.59  0.26  0.26  N/A\n"
    with pytest.raises(InputError, match="sendrecv_perf; expected one of all_reduce_perf"):
        read_nccl_tests("# sendrecv_perf -b 256\n" + ranks(2, 2) + row, "a.txt")
    with pytest.raises(InputError, match="nothing that tells the operation"):
        read_nccl_tests(ranks(2, 2) + row, "a.txt")


def test_processes_that_did_not_find_one_another_are_noticed_when_each_has_several_gpus() -> None:
    """Two processes of eight GPUs each, both of ranks 0 to 7 (as in NVIDIA/nccl-tests#306)."""
    row = "  1048576  262144  float  sum  -1  50.00  20.97  36.70  0  50.00  20.97  36.70  0\n"
    with pytest.raises(InputError, match=r"16 lines of only 8 ranks; expected .* MPI=1"):
        read_nccl_tests("# all_reduce_perf\n" + ranks(8) + ranks(8, pid=90) + row, "a.txt")


GB200 = """\
\tGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID
GPU0\t X \tNV18\tNV18\tNV18\tSYS\tSYS\t0-71\t0,3-9,11-17\t\t2
GPU1\tNV18\t X \tNV18\tNV18\tSYS\tSYS\t0-71\t0,3-9,11-17\t\t10
GPU2\tNV18\tNV18\t X \tNV18\tSYS\tSYS\t72-143\t1,19-25,27-33\t\t18
GPU3\tNV18\tNV18\tNV18\t X \tSYS\tSYS\t72-143\t1,19-25,27-33\t\t26
NIC0\tSYS\tSYS\tSYS\tSYS\t X \tNODE
NIC1\tSYS\tSYS\tSYS\tSYS\tNODE\t X

NIC Legend:

  NIC0: mlx5_0
  NIC1: mlx5_1
"""


def test_a_tray_of_four_with_lists_of_memory_nodes_is_read() -> None:
    """Grace has memory nodes of its own, told as lists (as in sgl-project/sglang#11208)."""
    topology = read_topology(GB200, "gb200.txt")
    assert (len(topology.gpus), topology.nvlinks, topology.even) == (4, 18, True)
    assert topology.nics == ("mlx5_0", "mlx5_1")


def test_cards_without_links_and_adapters_by_their_old_names_are_read() -> None:
    """Eight cards in slots (as in NVIDIA/go-gpuallocator#17), adapters as columns (kubernetes#53497)."""
    heads = [f"GPU{number}" for number in range(4)]
    text = "        " + "    ".join([*heads, "mlx4_0", "CPU Affinity"]) + "\n"
    for one in heads:
        words = [
            "X" if one == other else "PIX" if {one, other} == {"GPU0", "GPU1"} else "SYS" for other in heads
        ]
        text += f"{one}    {'    '.join([*words, 'PHB'])}    0-9,20-29\n"
    topology = read_topology(text, "old.txt")
    assert (topology.nvlinks, topology.even, topology.nics) == (0, False, ("mlx4_0",))
    assert topology.near_nics["GPU0"] == ()


@every(
    ("name", "message"),
    [
        ("without_mpi.txt", r"2 processes that are all rank 0; expected .* MPI=1"),
        ("wrong_results.txt", "wrong results"),
        ("alltoall_strix_halo.txt", "nothing that tells the number of ranks"),
        ("topo_cut_off.txt", "no row of GPU4, GPU5, GPU6, GPU7"),
        ("README.md", "none of these; expected output of nccl-tests, nvidia-smi"),
    ],
)
def test_a_text_that_cannot_be_used_says_why(name: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_log(LOGS / name)


def test_ranks_that_are_not_those_of_the_times_are_noticed() -> None:
    text = (LOGS / "h100_two_nodes.txt").read_text(encoding="utf-8")
    half = "\n".join(line for line in text.splitlines() if "gq73" not in line)
    with pytest.raises(InputError, match="all_reduce on 8 ranks gives in that time"):
        read_nccl_tests(half, "half.txt")


def test_one_rank_is_no_test() -> None:
    text = "# all_reduce_perf\n# Rank  0 Pid 1 on a device 0 [0x01] X\n"
    text += "  1048576  262144  float  sum  -1  3.2  327.6  0.00  0  0.3  3495.2  0.00  0\n"
    with pytest.raises(InputError, match="one rank; expected a test of at least two"):
        read_nccl_tests(text, "one.txt")


def test_a_topology_has_links_between_every_two() -> None:
    matrix = read_log(LOGS / "topo_h100.txt")
    assert isinstance(matrix, Topology)
    assert (len(matrix.gpus), len(matrix.pairs), matrix.nvlinks, matrix.even) == (8, 28, 18, True)


NICS = """\
\x1b[4mGPU0\tGPU1\tGPU2\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\x1b[0m
GPU0\t X \tNV4\tSYS\tPXB\tSYS\t0-15\t0
GPU1\tNV4\t X \tSYS\tNODE\tPIX\t0-15\t0
GPU2\tSYS\tSYS\t X \tSYS\tSYS\t0-15\t0
NIC0\tPXB\tNODE\tSYS\t X \tNODE
NIC1\tSYS\tPIX\tSYS\tNODE\t X

NIC Legend:

  NIC0: mlx5_0
  NIC1: mlx5_bond_1
"""


def test_ports_have_their_names_and_their_gpus() -> None:
    matrix = read_topology(NICS, "topo.txt")
    assert matrix.nics == ("mlx5_0", "mlx5_bond_1")
    assert matrix.near_nics == {"GPU0": ("mlx5_0",), "GPU1": ("mlx5_bond_1",), "GPU2": ()}
    assert (matrix.nvlinks, matrix.even) == (0, False)


def test_a_row_with_two_words_run_together_is_told() -> None:
    with pytest.raises(InputError, match="line 3: found GPU1"):
        read_topology(NICS.replace("NODE\tPIX", "NODEPIX"), "topo.txt")


def test_ports_have_state_rate_and_layer() -> None:
    ports = read_ibstat((LOGS / "ibstat_h100.txt").read_text(encoding="utf-8"), "ibstat.txt")
    assert len(ports) == 12
    assert sum(port.active and port.rate == 50e9 for port in ports) == 8
    assert [port.name for port in ports if not port.active] == ["mlx5_2", "mlx5_7", "mlx5_8"]
    assert {port.layer for port in ports if port.rate == 50e9} == {"InfiniBand"}


def test_an_adapter_with_two_ports_is_two() -> None:
    ports = read_ibstat((LOGS / "ibstat_two_ports.txt").read_text(encoding="utf-8"), "ibstat.txt")
    assert [(port.name, port.active, port.rate * 8 / 1e9) for port in ports] == [
        ("mlx4_0/1", False, 10),
        ("mlx4_0/2", True, 56),
    ]


def test_a_driver_tells_memory_power_and_who_is_busy() -> None:
    smi = read_log(LOGS / "smi_4090.txt")
    assert isinstance(smi, Smi)
    assert (smi.driver, smi.cuda, smi.attached) == ("535.154.05", "12.2", 8)
    assert [gpu.memory / MIB for gpu in smi.gpus] == [24564, 24564]
    assert [gpu.used / MIB for gpu in smi.gpus] == [0, 22090]
    assert [gpu.reserved / MIB for gpu in smi.gpus] == [346, 346]
    assert {(gpu.product, gpu.power_limit, gpu.sliced, gpu.slowdowns) for gpu in smi.gpus} == {
        ("NVIDIA GeForce RTX 4090", 450.0, False, ())
    }


@every(
    ("before", "after", "fault"),
    [
        (
            "MIG Mode\n        Current                           : N/A",
            "MIG Mode\n        Current : Enabled",
            "MIG slices",
        ),
        ("HW Thermal Slowdown           : Not Active", "HW Thermal Slowdown : Active", "HW Thermal Slowdown"),
    ],
)
def test_slices_and_throttling_are_told(before: str, after: str, fault: str, tmp_path: Path) -> None:
    text = (LOGS / "smi_4090.txt").read_text(encoding="utf-8")
    assert before in text
    (tmp_path / "smi.txt").write_text(text.replace(before, after, 1), encoding="utf-8")
    notes = imported(gather([("smi.txt", read_log(tmp_path / "smi.txt"))]), "", "mine", False).notes
    assert any(note.startswith("GPU 0") and fault in note for note in notes)


def test_a_text_without_gpus_is_refused() -> None:
    with pytest.raises(InputError, match="no GPU"):
        read_smi("==============NVSMI LOG==============\nDriver Version : 550\n", "smi.txt")


def test_shares_of_line_rates_follow_from_the_bus_bandwidth() -> None:
    """MI300X: 315.69 of 448 GB/s inside; 357.46 of 8 ports of 50 GB/s between two nodes."""
    result = bring("mi300x.txt")
    assert pool(result)["node"]["scaleup"]["efficiency"]["value"] == f"{315.69 / 448:.4g}"  # type: ignore[index]
    share = float(pool(result)["network"]["efficiency"]["value"])  # type: ignore[index]
    assert share == pytest.approx(357.46 / 400, rel=1e-3)


def test_in_place_times_are_taken_where_asked_for() -> None:
    there, here = (bring("mi300x.txt", in_place=flag) for flag in (False, True))
    assert pool(there)["node"] != pool(here)["node"]


def test_a_latency_is_one_hop_of_the_ring() -> None:
    """The quickest small all-reduce takes 13.67 us, over 2 (8 - 1) messages."""
    latency = pool(bring("mi300x.txt"))["node"]["scaleup"]["latency"]["value"]  # type: ignore[index]
    assert latency == f"{13.67 / 14:.4g} us"


def test_more_than_the_line_rate_is_told_and_not_taken() -> None:
    """Two nodes of 8 ports at 200 Gbit/s cannot give a ring more than 200 GB/s, and the text says 338.82."""
    result = bring("h100_two_nodes.txt", base="a3-megagpu-8g")
    assert "efficiency" not in pool(result)["network"]
    assert any("169% of the line rate" in note and "NCCL_ALGO=RING" in note for note in result.notes)


def test_ports_that_are_up_and_fastest_are_counted() -> None:
    result = bring("h100_two_nodes.txt", "ibstat_h100.txt")
    node = pool(result)["node"]
    assert (node["nics"], node["nic_rate"]["value"]) == (8, "400 Gbit/s")  # type: ignore[index]
    assert any("down: mlx5_2, mlx5_7, mlx5_8" in note for note in result.notes)
    assert any("mlx5_1" in note and "not counted" in note for note in result.notes)


def test_fewer_gpus_and_links_than_the_cluster_has_are_taken() -> None:
    result = imported(gather([("topo.txt", read_topology(NICS, "topo.txt"))]), "dgx-h100", "mine", False)
    assert pool(result)["node"]["accelerators"] == 3
    assert pool(result)["node"]["scaleup"]["domain"] == 3  # type: ignore[index]
    assert any("not every two GPUs are joined alike" in note for note in result.notes)
    assert any("no port is near to GPU2" in note for note in result.notes)


def test_links_of_another_rate_are_counted() -> None:
    """Twelve NVLinks of 25 GB/s are 300 GB/s, where the cluster has 450."""
    text = (LOGS / "topo_h100.txt").read_text(encoding="utf-8").replace("NV18", "NV12")
    result = imported(gather([("topo.txt", read_topology(text, "topo.txt"))]), "dgx-h100", "mine", False)
    assert pool(result)["node"]["scaleup"]["bandwidth"]["value"] == "300 GB/s"  # type: ignore[index]


def test_another_gpu_than_the_clusters_is_refused() -> None:
    with pytest.raises(InputError, match=r"RTX 4090.*expected a GPU of dgx-h100"):
        bring("smi_4090.txt", base="dgx-h100")


def test_an_unknown_gpu_asks_for_the_cluster() -> None:
    with pytest.raises(InputError, match="--base: found 'NVIDIA Graphics Device'"):
        bring("gb200_nvl72.txt")


def test_a_gather_says_more_of_a_link_than_a_reduction() -> None:
    samples = [Sample("all_reduce", 8, 1, 2.0**30, 4e-3), Sample("all_gather", 8, 1, 2.0**30, 3e-3)]
    link = link_of(samples)
    assert link is not None
    assert link.sample.operation == "all_gather"
    assert link.bus_rate == pytest.approx(7 / 8 * 2.0**30 / 3e-3)
    assert link.latency is None


def test_the_command_writes_a_profile_that_loads(tmp_path: Path) -> None:
    for name in ("mi300x.txt", "topo_h100.txt", "ibstat_h100.txt"):
        shutil.copy(LOGS / name, tmp_path)
    done = planner_in(tmp_path, "hardware", "import", "mi300x.txt", "ibstat_h100.txt", "--out", "mine.yaml")
    assert done.code == 0, done.err
    profile = load_hardware(str(tmp_path / "mine.yaml"))
    assert profile.pool.accelerator.name == "mi300x-192gb"
    assert profile.pool.nic_bandwidth == 50e9
    assert float(profile.pool.node.scaleup.efficiency) == pytest.approx(0.7047)
    assert "note: ports that are down" in done.err


def test_the_command_tells_every_fault_and_writes_nothing(tmp_path: Path) -> None:
    for name in ("without_mpi.txt", "topo_cut_off.txt"):
        shutil.copy(LOGS / name, tmp_path)
    names = ("without_mpi.txt", "topo_cut_off.txt", "absent.txt")
    done = planner_in(tmp_path, "hardware", "import", *names, "--out", "mine.yaml")
    assert done.code == 2
    assert all(name in done.err for name in names)
    assert "Traceback" not in done.err
    assert not (tmp_path / "mine.yaml").exists()
