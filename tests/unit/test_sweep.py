"""A sweep without its searches: the grid, its cases, keys, the order of rows, the front and the questions."""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.cli.options import JobOptions, PlanOptions
from planner.cli.sweep_cases import NAMES, read_grid, request_of, shared
from planner.errors import InputError
from planner.inputs.record import Sourced
from planner.search.request import SearchRequest
from planner.sweep.as_json import sweep_document
from planner.sweep.bisect import bisected, ladders_of
from planner.sweep.flat import flat_rows
from planner.sweep.front import best_rows, pareto_rows
from planner.sweep.grid import MOST_CASES, Grid, load_grid
from planner.sweep.page import sweep_page
from planner.sweep.questions import questions
from planner.sweep.ranges import has_range, multiples, without_ranges
from planner.sweep.row import FAILED, FITS, NOTHING_FITS, REFUSED, Row, SweepOutcome, row_of
from planner.sweep.run import Sweep, SweepCase, Work, run
from planner.sweep.solve import content_key
from tests.cases import every
from tests.unit.sweep_rows import fit, no_fit

SMALL = {"models": "llama3-8b", "hardware": "dgx-h100", "gpus": "8"}


def grid_of(tmp_path: Path, text: str) -> Grid:
    path = tmp_path / "grid.yaml"
    path.write_text(text, encoding="utf-8")
    return load_grid(path)


def faults(tmp_path: Path, text: str) -> list[str]:
    """Return the faults that the two doors of a grid find in ``text``."""
    with pytest.raises(InputError) as caught:
        read_grid(grid_of(tmp_path, text), str(tmp_path / "grid.yaml"), lambda _: None)
    return [str(problem).replace(f"{tmp_path}/", "") for problem in caught.value.problems]


def test_the_grid_is_the_product_of_its_lists(tmp_path: Path) -> None:
    grid = grid_of(
        tmp_path, "models: [a, b]\nhardware: h\ntp: [1, 2, 2]\nzero: 1e0\nrecompute: [full, null]\n"
    )
    assert grid.varying == ("models", "tp", "recompute")
    assert list(grid.options()) == [
        {"models": model, "hardware": "h", "tp": tp, "zero": "1", "recompute": recompute}
        for model, tp, recompute in itertools.product("ab", "12", ("full", None))
    ]


def test_every_option_of_a_search_is_an_axis() -> None:
    options = {field.name for record in (JobOptions, PlanOptions) for field in dataclasses.fields(record)}
    axes = {NAMES.get(name, name) for name in Grid.model_fields}
    assert axes == (options - {"nodes"}) | {"objective", "oom_risk", "uniform"}


def test_unknown_keys_and_shapes_are_told_at_once(tmp_path: Path) -> None:
    text = "models: llama3-8b\nhardware: []\nprecison: bf16\ntp: [[1]]\npp: {a: 1}\nmodels_too: x\n"
    found = faults(tmp_path, text)
    assert [fault.split(": found ")[0].split("; ")[0] for fault in found] == [
        "grid.yaml:2: hardware",
        "grid.yaml:4: tp",
        "grid.yaml:5: pp",
        "grid.yaml:3: precison",
        "grid.yaml:6: models_too",
    ]
    assert found[3].endswith("nearest: precision")


def test_a_grid_without_models_or_hardware_is_refused(tmp_path: Path) -> None:
    assert [fault.split(";")[0] for fault in faults(tmp_path, "gpus: 8\n")] == [
        "grid.yaml: models: found nothing",
        "grid.yaml: hardware: found nothing",
    ]
    assert "names or paths" in faults(tmp_path, "models: [a, null]\nhardware: h\n")[0]


def test_a_grid_of_too_many_cases_is_refused(tmp_path: Path) -> None:
    numbers = list(range(1, 401))
    text = f"models: m\nhardware: h\ngpus: {numbers}\nseq_len: {numbers}\n"
    assert faults(tmp_path, text) == [
        f"grid.yaml: found 400 gpus · 400 seq_len = 160,000 cases; expected at most {MOST_CASES:,}"
    ]


def test_values_that_no_case_can_have_are_told_at_once(tmp_path: Path) -> None:
    text = (
        "models: [llama3-8b, llama3-8x]\nhardware: dgx-h100\ngpus: [8, 0]\nseq_len: [4x, 4096]\n"
        "precision: [bf16, bf17]\nsequence_parallel: [true, maybe]\n"
    )
    found = faults(tmp_path, text)
    assert [fault.split(": found ")[0] for fault in found] == [
        "grid.yaml:1: models",
        "grid.yaml:3: gpus",
        "grid.yaml:4: seq_len",
        "grid.yaml:5: precision",
        "grid.yaml:6: sequence_parallel",
    ]
    assert "nearest: llama3-8b" in found[0]


def test_a_fault_of_every_case_is_told_once(tmp_path: Path) -> None:
    found = faults(tmp_path, "models: llama3-8b\nhardware: dgx-h100\ngpus: [8, 16]\nset: attenton=flash-2\n")
    assert len(found) == 1
    assert found[0].startswith("grid.yaml:4: set: found 'attenton=flash-2'")


def test_values_that_some_cases_cannot_have_leave_a_refused_case(tmp_path: Path) -> None:
    text = "models: llama3-8b\nhardware: [dgx-a100-80gb, dgx-h100]\ngpus: 8\nprecision: [bf16, fp8]\n"
    cases = read_grid(grid_of(tmp_path, text), "grid.yaml", lambda _: None)
    assert [case.request is None for case in cases] == [False, True, False, False]
    refused = cases[1].refused
    assert refused is not None
    assert refused.status == REFUSED
    assert "'fp8' on a100-80gb-sxm" in str(refused.reason)
    assert len({case.key for case in cases}) == 4


@every(
    "change",
    [
        {"models": "llama3-70b"}, {"hardware": "dgx-a100-80gb"}, {"gpus": "16"}, {"seq_len": "2048"},
        {"global_batch": "256"}, {"precision": "fp8"}, {"optimizer": "adam8bit"}, {"tokens": "1T"},
        {"method": "lora"}, {"runtime": "fsdp"}, {"set": "attention=flash-2"},
        {"tp": "2"}, {"objective": "memory"}, {"oom_risk": "0.01"}, {"memory_limit": "70"},
        {"gpus_per_node": "4"}, {"uniform": "true"}, {"sequence_parallel": "true"}, {"recompute": "full"},
    ],
    ids=str,
)  # fmt: skip
def test_the_key_changes_with_every_input(change: dict[str, str]) -> None:
    assert content_key(request_of(SMALL | change)) != content_key(request_of(SMALL))


def test_the_key_changes_with_a_number_of_the_profile_and_with_the_version(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    request = request_of(SMALL)
    (cluster,) = request.clusters
    chip = cluster.pool.accelerator.model_copy(update={"memory_visible": Sourced(79e9, "79 GB")})
    pool = cluster.pool.model_copy(update={"accelerator": chip})
    other = dataclasses.replace(request, clusters=(cluster.model_copy(update={"pools": (pool,)}),))
    before = content_key(request)
    assert content_key(other) != before
    monkeypatch.setattr("planner.sweep.solve.tool_version", lambda: "99.0")
    assert content_key(request) != before


def test_the_key_does_not_change_with_the_spelling() -> None:
    spelled = {"models": "LLAMA-3-8B", "hardware": "DGX-H100", "gpus": "8", "global_batch": "512", "tp": None}
    assert content_key(request_of(spelled)) == content_key(request_of(SMALL))


def test_equal_models_and_clusters_are_kept_once() -> None:
    once: dict[str, object] = {}
    one, other = (shared(request_of(SMALL | {"gpus": gpus}), once) for gpus in ("8", "16"))
    assert one.model is other.model
    assert one.clusters[0] is other.clusters[0]
    assert (one.gpu_counts, other.gpu_counts) == ((8,), (16,))


def made(keys: str) -> list[SweepCase]:
    request = request_of(SMALL)
    return [SweepCase({"models": key}, key, request) for key in keys]


def answered(work: Work) -> Iterator[tuple[str, SweepOutcome]]:
    """Answer in an order of its own."""
    for key, _ in random.Random(7).sample(list(work), len(work)):
        yield key, SweepOutcome(FITS, reason=f"searched {key}")


def test_rows_stand_in_the_order_of_the_grid_and_known_ones_are_skipped() -> None:
    known = {"b": Row("b", {"models": "B"}, SweepOutcome(FITS, reason="known"))}
    known |= {"e": Row("e", {"models": "e"}, SweepOutcome(FAILED, reason="known"))}
    kept: list[Row] = []
    told: list[tuple[int, int]] = []
    cases = [*made("abcade"), SweepCase({"models": "f"}, "f", None, SweepOutcome(REFUSED, reason="no"))]
    result = run(cases, known, answered, kept.append, lambda *pair: told.append(pair))
    assert [row.key for row in result.rows] == list("abcadef")
    assert [row.outcome.reason for row in result.rows] == [
        "searched a", "known", "searched c", "searched a", "searched d", "searched e", "no",
    ]  # fmt: skip
    assert result.rows[1].case == {"models": "b"}
    assert result.skipped == 1
    assert sorted(row.key for row in kept) == list("acdef")
    assert told == [(0, 4), (1, 4), (2, 4), (3, 4), (4, 4)]


@every("jobs", [1, 3])
def test_halving_finds_what_searching_every_rung_finds(jobs: int) -> None:
    chance, request = random.Random(jobs), request_of(SMALL)
    for _ in range(100):
        sizes = [chance.randint(1, 40) for _ in range(jobs)]
        last = [chance.randint(0, size) for size in sizes]
        cases = [
            SweepCase({"models": str(n), "seq_len": f"{8 * rung:,}"}, f"{n} {rung}", request)
            for n, size in enumerate(sizes)
            for rung in chance.sample(range(size), size)
        ]
        searched: list[str] = []

        def execute(
            work: Work, last: list[int] = last, seen: list[str] = searched
        ) -> Iterator[tuple[str, SweepOutcome]]:
            for key, _ in work:
                number, rung = map(int, key.split())
                seen.append(key)
                yield key, SweepOutcome(FITS if rung < last[number] else NOTHING_FITS)

        result = bisected(ladders_of(cases, "seq_len"), {}, execute, lambda _: None, lambda *_: None)
        found = {row.key for row in result.rows if row.outcome.status == FITS}
        for number, fits in enumerate(last):
            rungs = [int(key.split()[1]) for key in found if key.split()[0] == str(number)]
            assert max(rungs, default=-1) == fits - 1
        assert len(searched) == len(set(searched)) == len(result.rows)
        assert len(searched) <= sum(size.bit_length() for size in sizes)


def test_halving_takes_what_is_known_and_searches_the_rest() -> None:
    cases = [SweepCase({"models": "m", "seq_len": str(n)}, str(n), request_of(SMALL)) for n in range(1, 8)]
    known = {"4": Row("4", {}, SweepOutcome(FITS)), "6": Row("6", {}, SweepOutcome(NOTHING_FITS))}
    kept: list[Row] = []
    result = bisected(ladders_of(cases, "seq_len"), known, answered, kept.append, lambda *_: None)
    assert [row.key for row in result.rows] == ["4", "5", "6"]
    assert [row.key for row in kept] == ["5"]
    assert result.skipped == 2


def test_a_range_of_a_grid_becomes_the_values_between_its_ends(tmp_path: Path) -> None:
    grid = grid_of(tmp_path, "models: m\nhardware: h\ngpus: [4, 8..24]\nseq_len: 1024..4096\n")
    assert not has_range(grid, "tp")
    listed = without_ranges(without_ranges(grid, "seq_len", multiples), "gpus", lambda low, high: (low, high))
    assert (listed.gpus, listed.seq_len) == (("4", "8", "24"), ("1024", "2048", "3072", "4096"))
    assert listed.size == 12


def test_a_row_survives_its_line() -> None:
    row = no_fit(8, {"gpus": 16, "changes": ["--method lora"]})
    assert row_of(row.document()) == row
    for broken in ({"schema": "other"}, row.document() | {"status": "well"}):
        with pytest.raises(ValueError, match="schema"):
            row_of(broken)


def test_the_best_of_each_model_and_cluster() -> None:
    rows = [
        fit(8, 4.0),
        fit(16, 2.0),
        fit(32, 2.0),
        fit(8, 1.0, hardware="other"),
        fit(64, 3.0, global_batch=200, hardware="other"),
        no_fit(4),
    ]
    assert best_rows(rows) == [rows[1], rows[3]]


def test_the_best_follows_the_objective() -> None:
    cheap = {"cost_usd_per_step": 1.0, "objective": "cost"}
    rows = [
        fit(8, 4.0, **cheap),
        fit(16, 2.0, objective="cost"),
        fit(64, 1.0, **cheap | {"cost_usd_per_step": 2.0}),
    ]
    assert best_rows(rows) == [rows[0]]
    rows = [fit(8, 4.0, peak_gib=40.0, objective="memory"), fit(16, 2.0, objective="memory")]
    assert best_rows(rows) == [rows[0]]


FIGURES = st.tuples(*(st.integers(1, 4) for _ in range(3)))


@given(st.lists(FIGURES, min_size=1, max_size=12))
def test_the_front_is_what_brute_force_finds(points: list[tuple[int, int, int]]) -> None:
    rows = [
        fit(8, time, cost_usd_per_step=float(cost), peak_gib=float(memory)) for time, cost, memory in points
    ]

    def beaten(one: tuple[int, ...]) -> bool:
        return any(other != one and all(a <= b for a, b in zip(other, one, strict=True)) for other in points)

    assert pareto_rows(rows) == [row for row, point in zip(rows, points, strict=True) if not beaten(point)]


def test_other_models_and_methods_have_fronts_of_their_own_and_an_unknown_price_is_no_gift() -> None:
    rows = [
        fit(8, 2.0, cost_usd_per_step=1.0),
        fit(8, 3.0),
        fit(8, 1.0),
        fit(8, 9.0, models="n"),
        fit(8, 9.0, method="lora"),
    ]
    assert pareto_rows(rows) == [rows[0], *rows[2:]]


def test_how_many_accelerators_finish_in_time() -> None:
    question = questions()["finish-in"]
    rows = [
        fit(64, 1.0, days_to_train=25.0, cost_usd_to_train=9.0),
        fit(8, 9.0, days_to_train=200.0),
        fit(32, 2.0, days_to_train=30.0, cost_usd_to_train=8.0),
        no_fit(4),
        fit(8, 9.0, days_to_train=300.0, hardware="slow"),
        no_fit(8, {"gpus": 16, "changes": ["--method lora"]}, hardware="tiny"),
    ]
    replies = question.replies(rows, ("gpus", "hardware"), 30 * 86400.0)
    assert [reply["gpus"] for reply in replies] == [32, None, None]
    assert (replies[0]["days_to_train"], replies[0]["cost_usd_to_train"]) == (30.0, 8.0)
    assert replies[1]["note"] == "none in time: 8 take 300 days"
    assert replies[2]["note"] == "nothing fits; would: 16 accelerators; or --method lora"
    refused = Row("r", rows[0].case, SweepOutcome(REFUSED, reason="no"))
    assert question.replies([refused], (), 1.0)[0]["note"] == "values that do not go together"
    assert question.replies(rows, ("gpus",), 29 * 86400.0)[0]["gpus"] == 64
    assert "in 30 days" in question.title(30 * 86400.0)


def test_the_longest_sequence_of_each_count() -> None:
    rows = [
        fit(8, 1.0, seq_len=4096),
        fit(8, 1.0, seq_len=8192),
        no_fit(8, seq_len="32768"),
        no_fit(8, seq_len="16,384"),
        fit(16, 1.0, seq_len=32768),
        no_fit(4, seq_len="4096"),
    ]
    replies = questions()["longest-sequence"].replies(rows, ("seq_len",))
    assert [(reply["gpus"], reply["seq_len"], reply["note"]) for reply in replies] == [
        ("8", 8192, "16384 does not fit"),
        ("16", 32768, "the longest that was tried"),
        ("4", None, "nothing fits"),
    ]


def test_the_smallest_cluster_for_each_method() -> None:
    axis = ("gpus", "method")
    rows = [
        no_fit(8, {"gpus": 32, "changes": []}, method="full"),
        fit(16, 3.0, peak_gib=70.0),
        fit(8, 3.0),
        fit(8, 2.0),
    ]
    rows = [rows[0], *(Row(row.key, row.case | {"method": "lora"}, row.outcome) for row in rows[1:])]
    full, lora = questions()["smallest-cluster"].replies(rows, axis)
    assert (full["method"], full["gpus"], full["note"]) == (
        "full",
        None,
        "nothing fits; would: 32 accelerators",
    )
    assert (lora["method"], lora["gpus"]) == ("lora", 8)
    # 2 s for 100,000 tokens are 20,000 s for a billion.
    assert lora["hours_per_billion_tokens"] == pytest.approx(20000 / 3600)


def test_flat_rows_have_the_same_keys_whether_something_fits_or_not() -> None:
    rows = flat_rows(
        [fit(8, 1.0, memory_limit="70"), no_fit(8, {"gpus": 16, "missing_gib": 3.0, "changes": ["a", "b"]})]
    )
    assert list(rows[0]) == list(rows[1])
    assert (rows[0]["grid_memory_limit"], rows[0]["step_time_s"], rows[0]["nearest_gpus"]) == (
        "70",
        1.0,
        None,
    )
    assert (rows[1]["grid_memory_limit"], rows[1]["step_time_s"]) == (None, None)
    assert (rows[1]["nearest_gpus"], rows[1]["nearest_missing_gib"], rows[1]["nearest_changes"]) == (
        16,
        3.0,
        "a; b",
    )


def test_the_page_and_the_document_tell_of_every_case() -> None:
    refused = [
        Row(f"r{n}", {"models": "m", "hardware": "h", "gpus": n}, SweepOutcome(REFUSED, reason="too many"))
        for n in "12"
    ]
    lost = Row(
        "x", {"models": "n", "hardware": "h", "gpus": "8"}, SweepOutcome(FAILED, reason="it was ended")
    )
    sweep = Sweep((fit(8, 1.0), no_fit(4, {"missing_gib": 2.5, "changes": ["--zero 3"]}), *refused, lost), 2)
    page = sweep_page(sweep, ("models", "gpus"), {questions()["smallest-cluster"]: 0.0})
    told = "\n".join(part if isinstance(part, str) else "\n".join(map(str, part.rows)) for part in page)
    assert page[0] == "5 cases: 1 fit, 1 do not, 2 refused, 1 failed; 2 were there and are skipped."
    for words in (
        "Smallest cluster",
        "by time per token",
        "'GiB missing': '2.5'",
        "--zero 3",
        "it was ended",
    ):
        assert words in told
    assert "{'cases': '2', 'of': 'model m, cluster h', 'why': 'too many'}" in told
    document = sweep_document(sweep, ("models", "gpus"), {}, "out.jsonl")
    assert document["counts"] == {
        "cases": 5, "skipped": 2, "fits": 1, "nothing_fits": 1, "refused": 2, "failed": 1,
    }  # fmt: skip
    assert document["best"] == document["pareto"] == [sweep.rows[0].key]
    assert len(document["cases"]) == 5


def test_a_request_travels(tmp_path: Path) -> None:
    import pickle

    request = request_of(SMALL | {"runtime": "torchtitan", "gpus_per_node": "4"})
    again = pickle.loads(pickle.dumps(request))
    assert isinstance(again, SearchRequest)
    assert content_key(again) == content_key(request)


def test_a_grid_takes_options_as_the_command_line_spells_them(tmp_path: Path) -> None:
    path = tmp_path / "grid.yaml"
    path.write_text("model: llama3-8b\nhardware: dgx-h100\nseq-len: [4096, 8192]\nglobal-batch: 64\n")
    grid = load_grid(path)
    assert grid.axes == {
        "models": ("llama3-8b",),
        "hardware": ("dgx-h100",),
        "seq_len": ("4096", "8192"),
        "global_batch": ("64",),
    }


def test_a_key_that_stands_twice_in_two_spellings_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "grid.yaml"
    path.write_text("models: llama3-8b\nhardware: dgx-h100\nseq-len: 4096\nseq_len: 8192\n")
    with pytest.raises(InputError, match=r"grid\.yaml:3: seq-len: found unknown key"):
        load_grid(path)
