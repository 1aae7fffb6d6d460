"""The validation of a table: every row priced or told, and the document of the contract."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest

from planner.calibrate.pricing import Prediction, Price, batch_predictions, cost_predictions, naive_seconds
from planner.calibrate.releases import named_runtime
from planner.calibrate.runs.catalogue import Catalogue, shipped_catalogue
from planner.calibrate.runs.defaults import PricedRun, Skip, prepare
from planner.calibrate.runs.table import Fault, Run
from planner.calibrate.validate import as_json, json_parts, validate, validate_out_of_fold
from planner.cost.estimate import estimate
from planner.units import GIB
from tests.cases import every

BASE = Run(
    line=2,
    id="a",
    source="one",
    gpu="a100-80gb-sxm",
    num_gpus=16,
    model="llama2-7b",
    framework="megatron-core",
    seq_len=4096,
    tp=2,
    pp=2,
    dp=4,
    micro_batch=1,
    global_batch=64,
    step_time_s=10.0,
    peak_mem_gib=50.0,
    memory_kind="reserved",
    oom=0,
)


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return shipped_catalogue()


def fixed(step: float = 11.0, total: float = 60.0, capacity: float = 79.0) -> Price:
    def price(runs: Sequence[PricedRun]) -> list[Prediction | Skip]:
        return [Prediction(step, total - 12, 2.0, 10.0, capacity, 0.1, 0.05) for _ in runs]

    return price


def test_the_document_has_the_keys_of_the_contract(catalogue: Catalogue) -> None:
    document = as_json(validate([BASE], catalogue, fixed()))
    assert document["schema"] == "planner/validate/1"
    assert list(document["step_time"]) == ["n", "mape", "median_ape", "p90_ape", "bias", "within_10pct"]
    assert set(document["oom"]) == {"true_positive", "false_positive", "true_negative", "false_negative"}
    assert {"mape", "n"} <= set(document["memory"])
    (group,) = document["groups"]
    assert list(group) == [
        "source", "framework", "gpu", "model", "seq_len", "num_gpus", "global_batch", "precision",
        "n", "mape", "spearman", "top1_regret", "pick_oom",
    ]  # fmt: skip
    assert list(document["sources"][0]) == ["source", "n", "mape", "spearman"]
    (row,) = document["per_row"]
    assert {
        "id", "measured_s", "predicted_s", "measured_gib", "predicted_gib", "memory_kind", "measured_oom",
        "predicted_oom", "error_band", "defaults",
    } <= set(row)  # fmt: skip
    assert (row["measured_s"], row["predicted_s"], row["error_band"]) == (10.0, 11.0, 0.05)
    json.dumps(document, allow_nan=False)


def test_rows_with_the_same_defaults_share_them(catalogue: Catalogue) -> None:
    """A table may have a million rows, and few sets of defaults."""
    rows = [BASE, BASE.with_values({"id": "b"}), BASE.with_values({"id": "c", "recompute": "full"})]
    first, second, other = as_json(validate(rows, catalogue, fixed()))["per_row"]
    assert first["defaults"]
    assert first["defaults"] is second["defaults"]
    assert first["defaults"] != other["defaults"]


def test_rows_are_priced_or_named_never_lost(catalogue: Catalogue) -> None:
    table = [
        BASE,
        Fault(3, "b", "tp", "'x'", "a whole number above 0"),
        Fault(4, "", "id", "blank", "a unique key"),
        BASE.with_values({"id": "d", "gpu": "abacus"}),
        BASE.with_values({"id": "e", "dp": 3}),
        BASE.with_values({"id": "f"}),
    ]
    document = as_json(validate(table, catalogue, fixed()))
    assert (document["rows"], document["priced"]) == (6, 2)
    assert [skip["id"] for skip in document["skipped"]] == ["b", "row 4", "d", "e"]
    assert document["skipped"][0]["reason"] == "row 3, column tp: found 'x'; expected a whole number above 0"


def test_what_the_pricing_skips_is_named_too(catalogue: Catalogue) -> None:
    def refuses(runs: Sequence[PricedRun]) -> list[Prediction | Skip]:
        return [Skip(priced.run.id, "too odd") for priced in runs]

    document = as_json(validate([BASE], catalogue, refuses))
    assert (document["priced"], document["skipped"]) == (0, [{"id": "a", "reason": "too odd"}])
    assert document["step_time"]["mape"] is None
    assert document["memory"]["mape"] is None


@every(("kind", "expected"), [("allocated", 48.0), ("reserved", 50.0), ("device", 60.0), ("", 60.0)])
def test_memory_is_compared_with_its_own_counter(kind: str, expected: float, catalogue: Catalogue) -> None:
    document = as_json(validate([BASE.with_values({"memory_kind": kind})], catalogue, fixed(total=60.0)))
    assert document["per_row"][0]["predicted_gib"] == pytest.approx(expected)
    assert document["memory"]["n"] == (1 if kind else 0)
    assert document["memory"]["unknown_kind"]["n"] == (0 if kind else 1)


def test_a_run_that_printed_a_speed_did_not_run_out(catalogue: Catalogue) -> None:
    table = [
        BASE.with_values({"oom": None}),
        BASE.with_values({"id": "b", "oom": 1, "step_time_s": None, "peak_mem_gib": None}),
    ]
    document = as_json(validate(table, catalogue, fixed(total=90.0)))
    assert [row["measured_oom"] for row in document["per_row"]] == [False, True]
    assert (document["oom"]["true_positive"], document["oom"]["false_positive"]) == (1, 1)


def test_marked_rows_are_scored_apart(catalogue: Catalogue) -> None:
    table = [BASE, BASE.with_values({"id": "b", "step_time_s": 22.0, "mark": "odd campaign"})]
    document = as_json(validate(table, catalogue, fixed(11.0)))
    assert document["step_time"]["mape"] == pytest.approx((0.1 + 0.5) / 2)
    assert document["unmarked"]["mape"] == pytest.approx(0.1)
    assert "unmarked" not in as_json(validate([BASE], catalogue, fixed()))


def test_values_that_are_no_numbers_become_null(catalogue: Catalogue) -> None:
    document = as_json(validate([BASE], catalogue, fixed(step=float("nan"))))
    assert document["per_row"][0]["predicted_s"] is None
    assert document["step_time"]["n"] == 0


def test_each_row_is_priced_without_its_own_fold(catalogue: Catalogue) -> None:
    table = [
        BASE.with_values({"id": name, "source": source, "model": model})
        for name, source, model in (
            ("a", "one", "llama2-7b"),
            ("b", "two", "llama2-7b"),
            ("c", "two", "llama2-13b"),
        )
    ] + [BASE.with_values({"id": "d", "gpu": "abacus"})]
    seen: dict[str, set[str]] = {}

    def fit(others: Sequence[PricedRun]) -> Price:
        names = {priced.run.id for priced in others}

        def price(runs: Sequence[PricedRun]) -> list[Prediction | Skip]:
            seen.update({priced.run.id: names for priced in runs})
            return fixed()(runs)

        return price

    by_source = as_json(validate_out_of_fold(table, catalogue, fit, "source"))
    assert seen == {"a": {"b", "c"}, "b": {"a"}, "c": {"a"}}
    assert [row["id"] for row in by_source["per_row"]] == ["a", "b", "c"]
    assert (by_source["rows"], len(by_source["skipped"])) == (4, 1)
    validate_out_of_fold(table, catalogue, fit, "model")
    assert seen == {"a": {"c"}, "b": {"c"}, "c": {"a", "b"}}


def ready(run: Run, catalogue: Catalogue) -> PricedRun:
    found = prepare(run, catalogue)
    assert isinstance(found, PricedRun), found
    return found


def test_a_batch_of_runs_costs_what_each_estimate_says(catalogue: Catalogue) -> None:
    runs = [
        ready(BASE.with_values({"id": str(number), **changes}), catalogue)
        for number, changes in enumerate(
            (
                {},
                {"tp": 1, "dp": 8},
                {"tp": 4, "dp": 2, "micro_batch": 2},
                {"global_batch": 128},
                {"pp": 4, "tp": 1},
                {"recompute": "full"},
                {"zero": "0", "framework": "fsdp", "pp": 1, "dp": 8},
            )
        )
    ]
    for priced, found in zip(runs, cost_predictions(runs), strict=True):
        assert isinstance(found, Prediction)
        assert cost_predictions([priced]) == [found]
        alone = estimate(priced.plan, priced.job, priced.runtime)
        assert found.step_s == pytest.approx(alone.step, rel=1e-12)
        assert found.total_gib * GIB == pytest.approx(alone.peak, rel=1e-12)
        assert found.oom == (alone.peak > alone.capacity)


def test_an_unknown_technique_skips_its_rows_alone(catalogue: Catalogue) -> None:
    good = ready(BASE, catalogue)
    bad = replace(good, plan=replace(good.plan, schedule="nonsense"))
    first, second = cost_predictions([bad, good])
    assert isinstance(first, Skip)
    assert "nonsense" in first.reason
    assert second == batch_predictions([good])[0]


def test_the_rule_of_thumb_by_hand(catalogue: Catalogue) -> None:
    plain, full = ready(BASE, catalogue), ready(BASE.with_values({"id": "b", "recompute": "full"}), catalogue)
    # Llama 2 7B: 32 layers of 4 h^2 + 3 h 11008 weights and a head of 32,000; causal half of attention.
    weights = 32 * (4 * 4096**2 + 3 * 4096 * 11008) + 32000 * 4096
    flops = 64 * 4096 * (6 * weights + 32 * 6 * 4096 * 4096)
    bubble = 1 + 1 / 16
    first, second = naive_seconds([plain, full])
    assert first == pytest.approx(flops / (16 * 0.55 * 312e12) * bubble, rel=1e-3)
    assert second == pytest.approx(first * 4 / 3)


@every("rows", [[], [BASE], [BASE, replace(BASE, id='"per_row": []', mark="odd")]])
def test_a_document_is_written_a_row_at_a_time(rows: list[Run], catalogue: Catalogue) -> None:
    result = validate(rows, catalogue, fixed())
    assert json.loads("".join(json_parts(result))) == as_json(result)


RECIPE = Run(
    line=2, id="a", source="one", gpu="h100-80gb-sxm", num_gpus=16, model="llama3-8b", seq_len=8192, tp=1,
    pp=1, dp=16, micro_batch=1, global_batch=128, zero="1", precision="bf16",
    framework="megatron-bridge", step_time_s=5.0,
)  # fmt: skip


@every(
    ("framework", "release", "same", "told"),
    [
        ("megatron-bridge", "0.4", "megatron-bridge 26.04", "0.4"),
        ("megatron-bridge", "26.04.01", "megatron-bridge 26.04", "0.4"),
        ("megatron-bridge 26.08", "26.02", "megatron-bridge 26.02", "0.3"),
        ("torchtitan", "0.2.1", "torchtitan 0.2.1", "0.2.1"),
    ],
)
def test_a_column_names_the_release_as_the_frameworks_text_does(
    catalogue: Catalogue, framework: str, release: str, same: str, told: str
) -> None:
    by_column = prepare(replace(RECIPE, framework=framework, release=release), catalogue)
    by_text = prepare(replace(RECIPE, framework=same), catalogue)
    assert isinstance(by_column, PricedRun)
    assert isinstance(by_text, PricedRun)
    assert (by_column.era, by_column.runtime) == (by_text.era, by_text.runtime)
    assert by_column.release == by_text.release == told


def test_a_release_whose_files_are_written_is_priced_as_an_estimate_of_it(catalogue: Catalogue) -> None:
    row = prepare(replace(RECIPE, release="0.7"), catalogue)
    assert isinstance(row, PricedRun)
    (found,) = cost_predictions([row])
    assert isinstance(found, Prediction)
    whole = named_runtime("megatron-bridge@0.7", "h100-80gb-sxm", "bf16")
    assert found.step_s == pytest.approx(estimate(row.plan, row.job, whole).step, rel=1e-9)


def test_rows_tell_their_release_and_settings(catalogue: Catalogue) -> None:
    rows = [replace(RECIPE, framework="megatron-bridge 26.04"), replace(RECIPE, id="b"), BASE]
    told = [row for row in as_json(validate(rows, catalogue, fixed()))["per_row"]]
    assert [row["release"] for row in told] == ["0.4", None, None]
    assert told[0]["settings"]["gradients"] == "bf16"
    assert set(told[0]["settings"]) == {
        "cuda_graphs",
        "gradients",
        "loss_kernel",
        "precision_aware",
        "tp_overlap",
    }


def test_a_release_that_does_not_exist_is_told_with_the_nearest(catalogue: Catalogue) -> None:
    found = prepare(replace(RECIPE, release="26.05"), catalogue)
    assert isinstance(found, Skip)
    assert "row 2, column release" in found.reason
    assert "26.04" in found.reason
