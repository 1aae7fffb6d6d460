"""Files of one job over sites as a user meets them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command import Done, planner

SITES = """\
name: two-sites
sites:
  - {name: ohio, cluster: dgx-h100, gpus: 16, price: 2.5 USD/h}
  - {name: oregon, cluster: dgx-h100, gpus: 16, price: 2.5 USD/h}
links:
  - {between: [ohio, oregon], bandwidth: 400 Gbit/s, round_trip: 5 ms}
"""
JOB = ("llama3-8b", "--seq-len", "4096", "--global-batch", "64", "--tp", "2", "--micro-batch", "1",
       "--recompute", "none", "--cp", "1")  # fmt: skip


def emitted(folder: Path, runtime: str, *more: str, sites: str = SITES) -> tuple[Done, Path]:
    (folder / "two.yaml").write_text(sites)
    out = folder / "run"
    hardware = ("--hardware", str(folder / "two.yaml"), "--runtime", runtime)
    return planner("search", *JOB, *hardware, *more, "--emit", str(out)), out


@pytest.mark.parametrize("runtime", ["megatron-lm", "torchtitan", "megatron-bridge"])
def test_stages_at_the_sites_are_started_in_the_order_of_the_sites(tmp_path: Path, runtime: str) -> None:
    done, out = emitted(tmp_path, runtime, "--sync", "stages", "--format", "json")
    assert done.code == 0, done.err
    script, card = (out / "train.sh").read_text(), (out / "README.md").read_text()
    for line in ("--nnodes 4", '--node-rank "${NODE_RANK}"', "export NCCL_ALLNET_ENABLE=1"):
        assert line in script
    assert "rdzv" not in script
    assert "NODE_RANK 0 to 1 are the nodes of the first" in " ".join(card.split())
    text = (out / "hardware.yaml").read_text()
    assert "islands: {gpus: 16, bandwidth: 5e+10 B/s, latency: 0.0025 s}" in text
    # What was written is priced as it was ranked, and played.
    told = planner("explain", str(out / "plan.yaml"), "--format", "json").json["estimate"]
    assert told["step_time_s"] == pytest.approx(done.json["ways"][0]["step_time_s"], rel=1e-6)
    assert told["plan"]["pp"] % 2 == 0
    played = planner("simulate", str(out / "plan.yaml"))
    assert played.code == 0, played.err


def test_islands_of_data_parallelism_are_instances_of_megatron(tmp_path: Path) -> None:
    done, out = emitted(
        tmp_path, "megatron-lm", "--across", "data", "--sync", "ddp", "--zero", "1", "--zero-shards", "8"
    )
    assert done.code == 0, done.err
    assert "--num-distributed-optimizer-instances 2" in (out / "train.sh").read_text()


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--sync", "stages", "--launcher", "slurm"), "nearest: torchrun"),
        (("--sync", "stages", "--compress", "int8"), "--compress none"),
        (("--sync", "skippipe"), "no runner known"),
        (("--sync", "one-byte"), "no runner known"),
    ],
)
def test_what_nothing_starts_is_told(tmp_path: Path, more: tuple[str, ...], words: str) -> None:
    done, out = emitted(tmp_path, "megatron-lm", *more)
    assert done.code == 1
    assert words in done.err
    assert not out.exists()


@pytest.mark.parametrize(
    ("runtime", "said"),
    [("megatron-lm", "--use-tp-pp-dp-mapping"), ("megatron-bridge", "use_tp_pp_dp_mapping=True")],
)
def test_pipelines_inside_sites_are_written(tmp_path: Path, runtime: str, said: str) -> None:
    """Data parallelism crosses, and stages lie side by side."""
    done, out = emitted(tmp_path, runtime, "--sync", "ddp", "--pp", "2")
    assert done.code == 0, done.err
    assert said in "".join(path.read_text() for path in out.glob("train.*"))
    assert "each pipeline lies in one site" in " ".join(done.out.split())
    told = planner("explain", str(out / "plan.yaml"), "--format", "json").json["estimate"]
    assert told["plan"]["pp"] == 2


def test_unlike_sites_are_no_islands(tmp_path: Path) -> None:
    unlike = SITES.replace("oregon, cluster: dgx-h100", "oregon, cluster: dgx-a100-80gb")
    done, _ = emitted(tmp_path, "megatron-lm", "--sync", "stages", sites=unlike)
    assert done.code == 1
    assert "no runner known for one job on dgx-a100-80gb and dgx-h100" in done.err
