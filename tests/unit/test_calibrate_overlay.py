"""Constants on top of those that ship, and constants that have not seen the rows that they price."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from planner.calibrate.constants import shipped_values
from planner.calibrate.fit import Factor
from planner.calibrate.overlay import Overlay, predictions_of, read_overlay
from planner.calibrate.pricing import Prediction
from planner.calibrate.refit import Refit
from planner.calibrate.runs.catalogue import shipped_catalogue
from planner.calibrate.runs.defaults import PricedRun, prepared
from planner.calibrate.runs.table import read_runs
from planner.calibrate.stages import Stage
from planner.calibrate.validate import validate_out_of_fold
from planner.cli.options import Format
from planner.cli.validate import Fold, validate
from planner.errors import InputError
from tests.cases import every
from tests.property.test_calibrate import HEAD, row


def runs(*lines: str) -> list[PricedRun]:
    return prepared(read_runs([HEAD, *lines]).rows, shipped_catalogue(), [])


def seconds(these: Sequence[PricedRun], overlay: Overlay | None = None) -> list[float]:
    found = predictions_of(shipped_values(), overlay)(these)
    return [price.step_s for price in found if isinstance(price, Prediction)]


HERE = row(1, 1, 8, 1)
ELSEWHERE = row(2, 1, 8, 1, gpu="h100-80gb-sxm", source="theirs")
CLUSTER = """name: ours
pools:
- accelerator: a100-80gb-sxm
  node: dgx-a100-80gb
  network: infiniband-hdr
  compute_share: {value: 0.5, source: runs, standing: fitted}
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "overlay.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_calibrated_cluster_holds_for_runs_on_its_accelerator_alone(tmp_path: Path) -> None:
    these = runs(HERE, ELSEWHERE)
    plain, changed = seconds(these), seconds(these, read_overlay(written(tmp_path, CLUSTER)))
    assert 1.6 < changed[0] / plain[0] <= 2.0
    assert changed[1] == plain[1]


def test_a_slower_network_is_felt_by_runs_on_several_nodes_alone(tmp_path: Path) -> None:
    these = runs(HERE, row(2, 1, 64, 1))
    plain = seconds(these)
    changed = seconds(
        these, read_overlay(written(tmp_path, CLUSTER.replace("compute_share", "network_share")))
    )
    assert changed[0] == plain[0]
    assert changed[1] > plain[1]


def test_a_constant_of_a_site_holds_for_its_source_alone(tmp_path: Path) -> None:
    text = "constants:\n- {scope: site, owner: theirs, name: compute_share, value: 0.5}\n"
    these = runs(HERE, ELSEWHERE)
    plain, changed = seconds(these), seconds(these, read_overlay(written(tmp_path, text)))
    assert changed[0] == plain[0]
    assert 1.5 < changed[1] / plain[1] <= 2.0


def test_the_list_that_ships_is_an_overlay_that_changes_nothing() -> None:
    from planner.inputs.fitted import fitted_file

    these = runs(HERE, ELSEWHERE)
    assert seconds(these, read_overlay(fitted_file())) == seconds(these)


@every(
    ("text", "fault"),
    [
        ("bands: []\n", "constants"),
        ("constants: []\n", "constants"),
        ("constants: [7]\n", r"constants\[0\]"),
        ("constants:\n- {scope: sight, owner: a, name: compute_share, value: 1}\n", "nearest: site"),
        ("constants:\n- {scope: site, owner: a, name: computeshare, value: 1}\n", "nearest: compute_share"),
        ("constants:\n- {scope: site, owner: a, name: compute_share, value: -1}\n", "above 0"),
        ("constants:\n- {scope: site, owner: a, name: compute_share, value: .inf}\n", "finite"),
        ("constants:\n- {scope: site, owner: a, name: compute_share, value: true}\n", "above 0"),
        ("constants:\n- {scope: era, owner: nemo-2022, name: tp_exposed, value: 1}\n", "nearest: nemo-20"),
        ("constants:\n- {scope: site, owner: '', name: compute_share, value: 1}\n", "owner"),
        ("name: x\npools:\n- {accelerator: a100-80gb-sxm, node: dgx-a100-80gb}\n", "no share"),
    ],
)  # fmt: skip
def test_what_is_no_overlay_is_told_with_its_place(text: str, fault: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=fault):
        read_overlay(written(tmp_path, text))


def test_all_faults_of_an_overlay_are_told_at_once(tmp_path: Path) -> None:
    text = (
        "constants:\n- {scope: site, owner: a, name: x, value: 1}\n"
        "- {scope: site, owner: a, name: compute_share, value: no}\n"
    )
    with pytest.raises(InputError) as caught:
        read_overlay(written(tmp_path, text))
    assert len(caught.value.problems) == 2


STAGE = Stage(
    "all of one source",
    lambda priced: priced.run.source == "ours",
    (Factor(("site", "ours", "compute_share"), 1.0, "share [-]", 0.5),),
    lambda priced: priced.run.model,
    "a table of ours",
)


def half_speed(count: int, **more: object) -> list[str]:
    """Return rows that took twice what the cost model says with plain shares."""
    plain = seconds(runs(*(row(number, 1, 8, 1, **more) for number in range(count))))
    return [row(number, 1, 8, 1, step_time_s=2 * time, **more) for number, time in enumerate(plain)]


def test_a_site_without_runs_has_plain_shares_and_an_era_its_start() -> None:
    era = Factor(("era", "megatron-lm", "compute_derate"), 0.7, "share [-]", 0.5)
    stage = Stage("two", lambda priced: True, (*STAGE.factors, era), STAGE.group, "ours")
    assert Refit((stage,)).values(runs(HERE)) == {era.key: 0.7}


def test_a_shared_factor_has_one_value_for_all_its_owners() -> None:
    site, other = STAGE.factors[0].key, ("runtime", "nanotron", "compute_derate")
    both = Stage("shared", STAGE.wanted, (replace(STAGE.factors[0], shared=(other,)),), STAGE.group, "ours")
    values = Refit((both,)).values(runs(*half_speed(3)))
    assert values[other] == values[site] == Refit((STAGE,)).values(runs(*half_speed(3)))[site]
    start = Factor(other, 0.7, "share [-]", shared=(("runtime", "fsdp", "compute_derate"),))
    few = Stage("few", STAGE.wanted, (start,), STAGE.group, "ours")
    assert set(Refit((few,)).values(runs(HERE)).values()) == {0.7}


def test_enough_runs_fit_the_stage_and_marked_ones_do_not_count() -> None:
    values = Refit((STAGE,)).values(runs(*half_speed(3)))
    # Twice the time of kernels that take most of the step; the rest does not scale: the share is below 1/2.
    assert 0.4 < values["site", "ours", "compute_share"] <= 0.53
    assert Refit((STAGE,)).values(runs(*half_speed(3, mark="odd"))) == {}


def test_the_same_runs_are_fitted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    import planner.calibrate.refit as module

    calls = []
    whole = module.fit
    monkeypatch.setattr(module, "fit", lambda *given: calls.append(1) or whole(*given))
    refit, these = Refit((STAGE,)), runs(*half_speed(3))
    assert refit.values(these) == refit.values(list(these))
    assert len(calls) == 1


def test_out_of_fold_no_row_sees_its_own_source() -> None:
    lines = [*half_speed(3), row(10, 1, 8, 1, source="theirs")]
    told: list[str] = []
    seen: list[set[str]] = []

    class Watched(Refit):
        def values(self, runs: Sequence[PricedRun]) -> dict[tuple[str, str, str], float]:
            seen.append({run.run.source for run in runs})
            return super().values(runs)

    rows = read_runs([HEAD, *lines]).rows
    result = validate_out_of_fold(rows, shipped_catalogue(), Watched((STAGE,)), "source", told.append)
    assert seen == [{"theirs"}, {"ours"}]
    assert [line.split(":")[0] for line in told] == ["fold 1 of 2", "fold 2 of 2"]
    ours = result.outcomes[0].scored
    assert ours.predicted_s == pytest.approx((ours.measured_s or 0) / 2)


def test_the_command_takes_both_and_prints_only_the_document(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "runs.csv"
    table.write_text("\n".join([HEAD, HERE, ELSEWHERE]), encoding="utf-8")
    overlay = written(tmp_path, CLUSTER)
    documents = {}
    for fold, file in ((None, None), (None, overlay), (Fold.source, overlay)):
        validate(table, out_of_fold=fold, overlay=file, output=Format.json)
        printed = capsys.readouterr()
        documents[fold, file] = json.loads(printed.out)
        assert ("fold 1 of 2" in printed.err) is (fold is not None)
    plain, changed, folded = (
        [row["predicted_s"] for row in document["per_row"]] for document in documents.values()
    )
    assert changed[0] > 1.5 * plain[0]
    assert folded[0] > 1.5 * plain[0]


def test_a_row_has_the_error_band_of_its_release_and_accelerator(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from planner.inputs.bands import RELEASE_RUNS
    from planner.inputs.measured_bands import error_bands, release_bands

    table = tmp_path / "runs.csv"
    unknown = row(3, 1, 8, 1, gpu="mi300x-192gb", framework="deepspeed")
    table.write_text("\n".join([HEAD, HERE, unknown]), encoding="utf-8")
    validate(table, output=Format.json)
    rows = json.loads(capsys.readouterr().out)["per_row"]
    own = release_bands()[("megatron-lm", "a100-80gb-sxm", ""), rows[0]["era"]]
    whole = error_bands()["megatron-lm", "a100-80gb-sxm"]
    assert own.runs < RELEASE_RUNS
    assert [row["error_band"] for row in rows] == [max(own.band, whole), None]


def test_rows_priced_with_a_calibrated_cluster_have_its_band(tmp_path: Path) -> None:
    band = "{value: 4%, source: runs, standing: fitted}"
    entry = f"  calibration: {{runs: 12, runtimes: [megatron-lm], band: {band}}}\n"
    overlay = read_overlay(written(tmp_path, CLUSTER + entry))
    these = runs(HERE, ELSEWHERE)
    plain, changed = (
        [
            price.error_band
            for price in predictions_of(shipped_values(), on_top)(these)
            if isinstance(price, Prediction)
        ]
        for on_top in (None, overlay)
    )
    assert changed[0] is not None
    assert changed[0] == pytest.approx(0.04, abs=0.005)
    assert changed[1] == plain[1]


def test_the_command_leaves_accelerators_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "runs.csv"
    other = row(3, 1, 8, 1, gpu="h100-80gb-sxm")
    table.write_text("\n".join([HEAD, HERE, other]), encoding="utf-8")
    validate(table, out_of_fold=Fold("accelerator"), output=Format.json)
    told = capsys.readouterr().err
    assert "without accelerator 'a100-80gb-sxm'" in told
    assert "without accelerator 'h100-80gb-sxm'" in told
