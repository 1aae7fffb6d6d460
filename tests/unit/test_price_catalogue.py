"""Prices from SkyPilot's catalogue: per accelerator, the cheapest region, on the cluster that it is of."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.errors import InputError
from planner.inputs.load_hardware import load_hardware
from planner.inputs.price_catalogue import read_catalogue
from tests.cases import every
from tests.cli.command import planner

HEAD = "InstanceType,vCPUs,MemoryGiB,AcceleratorName,AcceleratorCount,GpuInfo,Price,SpotPrice,Region\n"


def row(
    instance: str, name: str, gpus: str, price: str, spot: str = "", size: int = 0, region: str = "x"
) -> str:
    info = f"\"{{'Gpus': [{{'Name': '{name}', 'MemoryInfo': {{'SizeInMiB': {size}}}}}]}}\"" if size else ""
    return f"{instance},8,64,{name},{gpus},{info},{price},{spot},{region}\n"


TABLE = HEAD + "".join([
    row("p5.48xlarge", "H100", "8.0", "60", "", 81920, "eu-north-1"),
    row("p5.48xlarge", "H100", "8.0", "55.04", "20", 81920, "us-east-1"),
    row("p4d.24xlarge", "A100", "8", "21.9576", "", 40960),
    row("Standard_ND96isr_H100_v5", "H100", "8", "98.32"),
    row("1x_A100-80GB_SECURE", "A100-80GB", "1.0", "1.39", "", 80),
    row("4x_RTX6000-Ada", "RTX6000-Ada", "4", "3.08"),
    row("p2.xlarge", "K80", "1", "0.9"),
    row("", "V100", "1", "2.48"),
    row("m5.large", "", "", "0.1"),
])  # fmt: skip


@pytest.fixture
def catalogue(tmp_path: Path) -> Path:
    path = tmp_path / "aws" / "vms.csv"
    path.parent.mkdir()
    path.write_text(TABLE, encoding="utf-8")
    return path


def test_prices_are_for_one_accelerator_in_the_cheapest_region_of_each_machine(catalogue: Path) -> None:
    found = read_catalogue(catalogue)
    told = {(one.instance, one.kind): (one.usd_per_h, one.cluster, one.region) for one in found.offers}
    assert told == {
        ("p5.48xlarge", "on demand"): (pytest.approx(6.88), "p5.48xlarge", "us-east-1"),
        ("p5.48xlarge", "spot"): (2.5, "p5.48xlarge", "us-east-1"),
        ("p4d.24xlarge", "on demand"): (pytest.approx(2.7447), "p4d.24xlarge", "x"),
        ("Standard_ND96isr_H100_v5", "on demand"): (pytest.approx(12.29), "nd96isr_h100_v5", "x"),
        ("1x_A100-80GB_SECURE", "on demand"): (1.39, "dgx-a100-80gb", "x"),
        ("4x_RTX6000-Ada", "on demand"): (0.77, "rtx-6000-ada-8-pcie", "x"),
    }
    assert (found.unknown, found.apart) == (("K80",), ("V100",))


def test_a_profile_has_the_machine_and_its_price(catalogue: Path, tmp_path: Path) -> None:
    out = tmp_path / "ada.yaml"
    done = planner("hardware", "prices", str(catalogue), "--instance", "4x_rtx6000-ada", "--out", str(out))
    assert done.code == 0, done.err
    pool = load_hardware(str(out)).pool
    assert (pool.accelerator.name, pool.gpus, pool.price_seller) == ("rtx-6000-ada", 4, "aws x")
    assert pool.price_per_hour == pytest.approx(0.77)
    listed = planner("hardware", "prices", str(catalogue), "h100", "--spot", "--format", "json").json
    assert [(one["instance"], one["usd_per_h"]) for one in listed] == [("p5.48xlarge", 2.5)]


@every(
    ("text", "options", "message"),
    [
        ("a,b\n1,2\n", (), "no column InstanceType"),
        (HEAD + row("i", "H100", "8", "dear"), (), "line 2: found '?8 at dear"),
        (HEAD + "i,8,64,H100\n", (), "line 2: found '?None at None"),
        (HEAD + row("i", "H100", "inf", "3"), (), "line 2: found '?inf at 3"),
        (HEAD + f'i,8,64,"{"x" * 200_000}",8,,3,,x\n', (), "expected a table of comma-separated values"),
        (TABLE, ("--region", "us-east-2"), "nearest: us-east-1"),
        (TABLE, ("--instance", "p5.4xlarge", "--out", "p.yaml"), "nearest: p5.48xlarge"),
        (TABLE, ("--instance", "p5.48xlarge"), "no --out"),
    ],
)
def test_what_is_wrong_is_told(tmp_path: Path, text: str, options: tuple[str, ...], message: str) -> None:
    path = tmp_path / "vms.csv"
    path.write_text(text, encoding="utf-8")
    done = planner("hardware", "prices", str(path), *options)
    assert done.code == 2
    assert message.replace("'?", "") in done.err.replace("'", "")


def test_a_folder_is_no_catalogue(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        read_catalogue(tmp_path)
