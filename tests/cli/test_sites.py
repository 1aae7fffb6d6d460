"""``planner search`` over several sites as a user meets it."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from planner.report.html_sites import curves_figure, utilisation_figure
from planner.techniques.sync import SYNCS
from planner.techniques.sync.family import loss_ratio
from tests.cases import every
from tests.cli.command import Done, once, planner

TWO = """\
name: two-sites
sites:
  - {name: ohio, cluster: dgx-h100, gpus: 16, price: 2.5 USD/h}
  - {name: oregon, cluster: dgx-h100, gpus: 16, price: 2 USD/h}
links:
  - {between: [ohio, oregon], bandwidth: 10 Gbit/s, round_trip: 60 ms}
"""
JOB = ("llama3-8b", "--seq-len", "4096", "--global-batch", "64", "--tp", "2", "--micro-batch", "1",
       "--zero", "3", "--recompute", "none", "--cp", "1")  # fmt: skip


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("sites") / "two.yaml"
    path.write_text(TWO)
    return str(path)


@pytest.fixture(scope="module")
def all_ways(two: str) -> dict[str, Any]:
    told: dict[str, Any] = ask(two, "--tokens", "100B", "--format", "json").json
    return told


def ask(two: str, *more: str) -> Done:
    run = planner if "--emit" in more else once
    return run("search", *JOB, "--hardware", two, *more)


def test_only_what_somebody_runs_is_ranked_unasked(all_ways: dict[str, Any]) -> None:
    assert all_ways["schema"] == "planner/sites/1"
    ways = all_ways["ways"]
    assert {one["sync"] for one in ways} == {"ddp", "stages", "local-sgd", "diloco", "streaming"}
    assert all("torchtitan" in one["runner"] for one in ways)
    assert {"eager", "noloco", "swarm"} <= {one["sync"] for one in all_ways["not_ranked"]}
    assert all(one["refused"] for one in all_ways["not_ranked"])


def test_what_changes_learning_says_what_that_costs(all_ways: dict[str, Any]) -> None:
    for one in all_ways["ways"] + all_ways["not_ranked"]:
        assert one["exact"] == (one["penalty"]["kind"] == "none")
        assert one["exact"] or (one["penalty"]["source"].startswith("arXiv:") and one["penalty"]["text"])
        known = one["compute_to_same_loss"] is not None
        assert known == (one["penalty"]["kind"] in ("none", "law"))
        assert (one["days_to_same_loss"] is not None) == known
    # What nobody knows comes after what is known, however fast it is.
    known_first = [one["compute_to_same_loss"] is None for one in all_ways["ways"]]
    assert known_first == sorted(known_first)


def test_days_and_money_by_hand(all_ways: dict[str, Any]) -> None:
    for one in all_ways["ways"]:
        days = 100e9 / (64 * 4096) * one["step_time_s"] / 86400
        assert one["days_to_train"] == pytest.approx(days)
        assert one["cost_usd_to_train"] == pytest.approx(days * 24 * (16 * 2.5 + 16 * 2))


def test_ddp_is_behind_below_the_crossover(two: str, all_ways: dict[str, Any], tmp_path: Path) -> None:
    diloco = next(one for one in all_ways["ways"] if one["sync"] == "diloco")
    rate = diloco["crossover_gbit_per_s"]
    for share, ahead in ((0.9, True), (1.1, False)):
        path = tmp_path / f"{share}.yaml"
        path.write_text(TWO.replace("10 Gbit/s", f"{share * rate} Gbit/s"))
        count = ("--inner-steps", str(diloco["inner_steps"]))
        told = ask(
            str(path), "--sync", "ddp", "--sync", "diloco", *count, "--tokens", "1B", "--format", "json"
        )
        days = {one["sync"]: one["days_to_same_loss"] for one in told.json["ways"]}
        assert (days["diloco"] < days["ddp"]) == ahead


def test_the_fewest_inner_steps_that_are_about_as_fast_are_taken(two: str) -> None:
    told = ask(two, "--sync", "diloco", "--inner-steps", "10..1000", "--format", "json").json
    best, every = told["ways"][0], told["by_inner_steps"]
    least = min(one["step_time_s"] for one in every)
    assert best["step_time_s"] <= 1.01 * least
    assert all(one["step_time_s"] > 1.01 * least for one in every if one["inner_steps"] < best["inner_steps"])
    assert [every[0]["inner_steps"], every[-1]["inner_steps"]] == [10, 1000]


def test_a_page_fits_the_screen(two: str) -> None:
    lines = ask(two, "--tokens", "100B").out.splitlines()
    assert max(map(len, lines)) <= 80
    assert {"#", "method", "s/step"} <= set(lines[3].split())
    assert len(lines) <= 24
    assert "no runner known" in " ".join(lines)


def test_csv_has_a_row_for_each_way(two: str) -> None:
    rows = list(csv.DictReader(io.StringIO(ask(two, "--sync", "all", "--format", "csv").out)))
    assert {row["sync"] for row in rows} == set(SYNCS) - {"spes"}  # the model has no experts
    assert all(row["penalty"] for row in rows)


@every(
    ("more", "words"),
    [
        (("--sync", "dilocoo"), ("--sync", "diloco")),
        (("--sync", "spes"), ("--sync", "routed experts")),
        (("--across", "stage"), ("--across", "stages")),
        (("--across", "data", "--sync", "diloco"), ("--sync", "--across outer")),
        (("--inner-steps", "0"), ("--inner-steps",)),
        (("--compress", "topk:200%"), ("--compress", "topk:1%")),
        (("--compress", "int8:3"), ("--compress", "int8")),
        (("--batch-shares", "speeed"), ("--batch-shares", "speed")),
        (("--gpus", "8"), ("--gpus",)),
        (("--front", "3"), ("--front",)),
        (("--top", "3"), ("--top",)),
        (("--uniform",), ("--uniform",)),
        (("--method", "lora"), ("--method", "full")),
        (("--smoke",), ("--smoke",)),
        (("--emit", "nowhere", "--target", "nanotron"), ("--target", "torchtitan")),
        (("--runtime", "deepspeed", "--runtime", "torchtitan"), ("--runtime",)),
    ],
)
def test_a_slip_is_told(two: str, more: tuple[str, ...], words: tuple[str, ...]) -> None:
    done = ask(two, *more)
    assert done.code == 2
    assert all(word in done.err for word in words)


def test_a_batch_that_the_replicas_cannot_share_is_told(two: str) -> None:
    done = planner("search", "llama3-8b", "--hardware", two, "--global-batch", "33")
    assert done.code == 2
    assert "32 or 34" in done.err


@every(
    ("old", "new", "words"),
    [
        ("cluster: dgx-h100, gpus: 16, price: 2 ", "cluster: dgx-h1000, gpus: 16, price: 2 ", "dgx-h100"),
        ("[ohio, oregon]", "[ohio, origon]", "oregon"),
        ("10 Gbit/s", "10 Gbit", "bandwidth"),
        ("60 ms", "60 s", "round_trip"),
        ("name: oregon", "name: ohio", "each site once"),
        ("gpus: 16, price: 2 ", "gpus: 16, replicas: 3, price: 2 ", "divisor"),
        ("gpus: 16, price: 2 ", "gpu: 16, price: 2 ", "gpus"),
    ],
)
def test_a_fault_of_the_file_is_told(tmp_path: Path, old: str, new: str, words: str) -> None:
    path = tmp_path / "sites.yaml"
    assert old in TWO
    path.write_text(TWO.replace(old, new))
    done = ask(str(path))
    assert done.code == 2
    assert words in done.err
    assert "Traceback" not in done.err


def test_options_for_sites_need_sites() -> None:
    done = planner("search", "llama3-8b", "--hardware", "dgx-h100", "--gpus", "8", "--sync", "diloco")
    assert done.code == 2
    assert "sites" in done.err


def test_other_commands_say_what_sites_are_for(two: str) -> None:
    done = planner("estimate", "llama3-8b", "--hardware", two, "--gpus", "8")
    assert done.code == 2
    assert "planner search" in done.err


def test_no_pipeline_with_torchft(two: str) -> None:
    told = ask(two, "--sync", "diloco", "--pp", "2", "--format", "json").json
    assert ["pp 1" in reason for reason in told["ways"][0]["refused"]] == [True]
    assert told["plans"]["ohio"]["plan"]["pp"] == 2


def test_failures_are_told(tmp_path: Path) -> None:
    path = tmp_path / "failing.yaml"
    path.write_text(TWO.replace("price: 2 USD/h", "price: 2 USD/h, device_mtbf: 32 d"))
    told = ask(str(path), "--sync", "diloco", "--format", "json").json
    assert [one["failures_per_day"] for one in told["sites"]] == [None, pytest.approx(16 / 32)]
    assert "oregon 0.5" in ask(str(path), "--sync", "diloco").out


def test_unlike_sites_have_one_layout_and_wait_for_the_slower(tmp_path: Path) -> None:
    path = tmp_path / "unlike.yaml"
    path.write_text(TWO.replace("dgx-h100, gpus: 16, price: 2 ", "dgx-a100-80gb, gpus: 16, price: 2 "))
    told = ask(str(path), "--sync", "diloco", "--format", "json").json
    plans = {name: one["plan"] for name, one in told["plans"].items()}
    steps = {name: one["step_time_s"] for name, one in told["plans"].items()}
    assert plans["ohio"] == plans["oregon"]
    assert steps["ohio"] < steps["oregon"] == pytest.approx(told["ways"][0]["inner_step_s"])
    wasted = 1 - (steps["ohio"] + steps["oregon"]) / 2 / told["ways"][0]["step_time_s"]
    assert told["ways"][0]["utilisation"] == pytest.approx(1 - wasted)


def test_unequal_replicas_have_no_runner(tmp_path: Path) -> None:
    path = tmp_path / "unequal.yaml"
    path.write_text(TWO.replace("gpus: 16, price: 2 ", "gpus: 8, price: 2 "))
    reasons = ask(str(path), "--sync", "diloco", "--format", "json").json["ways"][0]["refused"]
    assert any("as many accelerators" in reason for reason in reasons)


def test_unlike_sites_say_why_nothing_is_ranked_and_send_what_stages_send(tmp_path: Path) -> None:
    path = tmp_path / "unlike.yaml"
    path.write_text(TWO.replace("dgx-h100, gpus: 16, price: 2 ", "dgx-a100-80gb, gpus: 8, price: 2 "))
    asked = ("--runtime", "megatron-lm", "--pp", "3")
    done = ask(str(path), "--sync", "stages", *asked)
    assert "stages 0 to 1 at ohio, 2 at oregon" in done.out
    told = ask(str(path), "--sync", "stages", *asked, "--format", "json").json["ways"][0]
    each = 64 * 4096 * 4096 * 2  # bytes of all tokens' activations in bf16, each way
    assert told["links"][0]["mean_gbit_per_s"] == pytest.approx(8e-9 * each / told["step_time_s"])
    assert told["refused"] == [
        "no runner known for one job on dgx-a100-80gb and dgx-h100",
        "files of one job take as many accelerators at each site",
    ]
    wrong = ask(str(path), "--sync", "stages", "--runtime", "megatron-lm", "--pp", "4")
    assert wrong.code == 2
    assert "--pp: found 4; expected stages of as many accelerators each that fill every site" in wrong.err
    assert "nearest: 3" in wrong.err
    unasked = ask(str(path), *asked)
    assert unasked.code == 1
    assert "stages (no runner known for one job on dgx-a100-80gb and dgx-h100" in unasked.out
    assert "--sync all ranks them all the same" in " ".join(unasked.out.split())


def test_other_runtimes_train_as_one_job_alone(two: str) -> None:
    narrow = ("--micro-batch", "1", "--recompute", "none", "--cp", "1", "--tp", "2", "--global-batch", "64")
    ask_megatron = ("--hardware", two, *narrow, "--runtime", "megatron-lm", "--format", "json")
    told = planner("search", "llama3-8b", *ask_megatron)
    assert {one["sync"] for one in told.json["ways"]} == {"ddp", "stages"}
    assert all(len(told.json["plans"]) == 1 for _ in told.json["ways"])
    assert told.json["not_ranked"]


@pytest.mark.parametrize(("model", "words"), [("llama3.1-405b", "GiB"), ("gpt3-175b", "model-in-torchtitan")])
def test_why_no_plan_fits_inside_a_site_is_told(two: str, model: str, words: str) -> None:
    done = planner("search", model, "--hardware", two, "--sync", "diloco", "--tp", "8", "--zero", "3")
    assert done.code == 1
    assert "inside a site no plan is" in done.out
    assert words in done.out


def test_files_are_those_of_torchft(two: str, tmp_path: Path) -> None:
    out = tmp_path / "run"
    done = ask(two, "--sync", "streaming", "--inner-steps", "60", "--compress", "int8", "--emit", str(out))
    assert done.code == 0, done.err
    texts = {name: (out / name / "titan_plan.py").read_text() for name in ("ohio", "oregon")}
    assert texts["ohio"] == texts["oregon"]
    for line in (
        'semi_sync_method="diloco",', "sync_steps=60,", "num_fragments=10,", "fragment_sync_delay=1,",
        "should_quantize=True,", "group_size=2,",
    ):  # fmt: skip
        assert line in texts["ohio"]
    compile(texts["ohio"], "titan_plan.py", "exec")
    for replica, name in enumerate(("ohio", "oregon")):
        script = (out / name / "train.sh").read_text()
        assert f"--fault_tolerance.replica_id {replica}" in script
        assert f"--training.num_tokens_per_train_step {64 * 4096}" in script
        assert "TORCHFT_LIGHTHOUSE" in script


def test_files_of_a_way_that_nobody_runs_are_refused(two: str, tmp_path: Path) -> None:
    done = ask(two, "--sync", "eager", "--emit", str(tmp_path / "run"))
    assert done.code == 1
    assert "no runner known" in done.err
    assert not (tmp_path / "run").exists()


def test_an_exchange_that_takes_long_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "slow.yaml"
    path.write_text(TWO.replace("10 Gbit/s", "1 Gbit/s"))
    done = ask(str(path), "--sync", "diloco", "--emit", str(tmp_path / "run"), "--format", "json")
    seconds = sum(json.loads(done.out)["ways"][0]["exchange_s"])
    text = (tmp_path / "run" / "ohio" / "titan_plan.py").read_text()
    timeout = int(text.partition("process_group_timeout_ms=")[2].partition(",")[0])
    assert timeout / 1000 > 2 * seconds > 10


def test_the_report_draws_every_method(two: str, tmp_path: Path) -> None:
    pytest.importorskip("plotly")
    source, page = tmp_path / "sites.json", tmp_path / "page.html"
    told = ask(two, "--tokens", "100B", "--format", "json")
    source.write_text(told.out)
    assert planner("report", str(source), "--out", str(page)).code == 0
    text = page.read_text()
    names = set(told.json["curves"]["step_time_s"])
    assert names == set(SYNCS) - {"spes"}
    assert all(name in text for name in names)
    assert all(f'id="plot-{name}"' in text for name in ("sites", "utilisation"))
    source.write_text(json.dumps(told.json | {"ways": [{"sync": "diloco"}]}))
    assert planner("report", str(source), "--out", str(page), "--force").code == 2


def test_pictures_hold_utilisation_and_crossovers(all_ways: dict[str, Any]) -> None:
    times, shares = curves_figure(all_ways), utilisation_figure(all_ways)
    marks = times["data"][-1]
    assert dict(zip(marks["text"], marks["x"], strict=True)) == {
        one["sync"]: one["crossover_gbit_per_s"] for one in all_ways["ways"] if one["crossover_gbit_per_s"]
    }
    ddp = next(line for line in times["data"] if line["name"] == "ddp")
    for name, rate, seconds in zip(marks["text"], marks["x"], marks["y"], strict=True):
        # Where curves cross, both take as long to one loss.
        if name not in ("local-sgd", "stages"):  # of unknown cost, and interpolated
            at = np.exp(np.interp(np.log(rate), np.log(ddp["x"]), np.log(ddp["y"])))
            assert seconds == pytest.approx(float(at), rel=0.1)
    for one in all_ways["ways"]:
        line = next(line for line in shares["data"] if line["name"] == one["sync"])
        own = np.interp(np.log(10.0), np.log(line["x"]), line["y"])
        assert own == pytest.approx(100 * one["utilisation"], abs=3)
        assert max(line["y"]) <= 100 + 1e-6


def test_curves_hold_the_price_at_the_own_rate(all_ways: dict[str, Any]) -> None:
    rates = all_ways["curves"]["narrowest_gbit_per_s"]
    place = next(number for number, rate in enumerate(rates) if rate >= 10.0)
    for one in all_ways["ways"]:
        steps = all_ways["curves"]["step_time_s"][one["sync"]]
        assert steps == sorted(steps, reverse=True)
        assert steps[place] <= one["step_time_s"] * (1 + 1e-9)
        assert steps[place - 1] >= one["step_time_s"] * (1 - 1e-9)


def test_a_compression_of_unknown_cost_hides_none(two: str) -> None:
    told = ask(two, "--sync", "diloco", "--sync", "ddp", "--compress", "ternary", "--format", "json").json
    assert [one["compute_to_same_loss"] for one in told["ways"]] == [None, None]
    assert not any(one["exact"] for one in told["ways"])


@pytest.mark.parametrize("limit", ["40", "60"])
def test_plans_leave_room_for_what_a_method_keeps(two: str, limit: str) -> None:
    job = ("llama3-8b", "--seq-len", "4096", "--global-batch", "64", "--micro-batch", "1", "--cp", "1")
    asked = (
        "--hardware",
        two,
        "--zero",
        "3",
        "--sync",
        "diloco",
        "--memory-limit",
        limit,
        "--format",
        "json",
    )
    told = planner("search", *job, *asked).json
    for one in told["plans"].values():
        assert one["memory"]["peak_gib"] + told["ways"][0]["device_gib"] <= float(limit)
    assert told["ways"]


def test_more_replicas_stop_paying(two: str) -> None:
    # arXiv:2410.21676, arXiv:2503.09799: half the steps, but for what a larger batch and more replicas cost.
    rest = [part for part in JOB if part not in ("--global-batch", "64")]
    asked = ("search", *rest, "--hardware", two, "--sync", "diloco", "--global-batch")
    few, many = (planner(*asked, batch, "--format", "json").json for batch in ("64", "8192"))
    shares = [one["time_with_twice_the_replicas"] for one in (few, many)]
    batch = 64 * 4096 / few["critical_batch_tokens"]
    learning = loss_ratio(8.03e9, 4) / loss_ratio(8.03e9, 2)
    wanted = 0.5 * (1 + 0.4 * batch) / (1 + 0.2 * batch) * learning ** (2 / 0.0953)
    assert shares[0] == pytest.approx(wanted, rel=0.01)
    assert 0.5 < shares[0] < 0.8 < shares[1] < 1.2
    assert "Twice the replicas" in ask(two, "--sync", "diloco", "-v").out


def test_a_page_has_links_inner_steps_and_what_is_compared(two: str, tmp_path: Path) -> None:
    told = ask(two, "--sync", "diloco", "--inner-steps", "100..200", "--format", "json")
    (tmp_path / "sites.json").write_text(told.out)
    page = tmp_path / "page.html"
    assert planner("report", str(tmp_path / "sites.json"), "--out", str(page)).code == 0
    text = page.read_text()
    for words in (
        "By inner steps",
        "Links of the best way",
        "ohio to oregon",
        "time with twice the replicas",
    ):
        assert words in text
    names = {one["name"] for one in curves_figure(told.json)["data"]}
    assert names == {"ddp", "diloco", "crossover with ddp"}
