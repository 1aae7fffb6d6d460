"""``planner hardware``: lists, every number of one, and what differs."""

from __future__ import annotations

import csv
import io
import json

import pytest
from typer.testing import CliRunner, Result

from planner.cli.hardware import app
from planner.errors import InputError
from planner.inputs.load_hardware import accelerator_names, cluster_names


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "80"})
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_the_list_has_every_cluster_in_plain_numbers() -> None:
    rows = {row["name"]: row for row in json.loads(run("list", "--format", "json").stdout)}
    assert len(rows) == len(cluster_names())
    assert rows["dgx-h100"] == {
        "name": "dgx-h100",
        "accelerator": "h100-80gb-sxm",
        "gpus_per_node": 8,
        "scaleup_domain": 8,
        "memory_gib": 79.6,
        "bf16_tflops": 989.0,
        "nic_gb_per_s": 50.0,
        "price_usd_per_h": 3.29,
        "template": False,
    }
    assert rows["gb200-nvl72"]["price_usd_per_h"] is None


def test_the_table_fits_eighty_columns_and_marks_templates() -> None:
    for arguments in (["list"], ["list", "--accelerators"]):
        lines = run(*arguments).stdout.splitlines()
        assert max(map(len, lines)) <= 80
        assert any(line.startswith("rtx5090-8-pcie *") or line.startswith("rtx-5090 *") for line in lines)
        assert "\x1b" not in "".join(lines)


def test_accelerators_as_csv() -> None:
    rows = list(csv.DictReader(io.StringIO(run("list", "--accelerators", "--format", "csv").stdout)))
    assert [row["name"] for row in rows] == accelerator_names()


def test_show_tells_unit_source_and_standing() -> None:
    rows = {row["field"]: row for row in json.loads(run("show", "dgx-h100", "--format", "json").stdout)}
    assert rows["accelerator.memory_visible"]["value"] == "81559 MiB"
    assert rows["accelerator.memory_visible"]["standing"] == "measured"
    assert rows["network.efficiency"]["source"].startswith("https://")
    table = run("show", "dgx-h100").stdout
    assert "accelerator.memory_visible" in table
    assert "https://www.nvidia.com/en-us/data-center/h100/" in table


def test_show_takes_an_accelerator_too() -> None:
    assert "312 TFLOP/s" in run("show", "a100", "--format", "markdown").stdout


def test_diff_prints_only_what_differs() -> None:
    rows = {
        row["field"]: row
        for row in json.loads(run("diff", "dgx-h100", "dgx-h200", "--format", "json").stdout)
    }
    assert rows["accelerator.memory_bandwidth"]["ratio"] == pytest.approx(4.8 / 3.35, abs=1e-3)
    assert "accelerator.peak.bf16" not in rows
    assert "nothing differs" in run("diff", "h100", "h100-sxm").stdout


def test_diff_of_unlike_things_is_refused() -> None:
    with pytest.raises(InputError, match="two clusters, or two accelerators"):
        run("diff", "dgx-h100", "h100")


def test_an_unknown_name_is_told_with_the_nearest() -> None:
    with pytest.raises(InputError, match=r"nearest: .*dgx-h100"):
        run("show", "dgx-h1000")
