"""Plans where machines fail, for people and programs: strategies ranked, and where the time goes."""

from __future__ import annotations

from typing import Any, Final

from planner.cost.reliability import Reliable
from planner.dataclasses import asdict, replace
from planner.report.as_json import Document, estimate_document, plain
from planner.report.layout import layout
from planner.report.page import Page, Table, significant
from planner.report.plan_columns import money
from planner.search.goodput import Reckoned
from planner.units import GB, GIB, HOUR, percent

RELIABLE: Final = "planner/search-goodput/1"


def goodput_answer(found: Reckoned, several: tuple[bool, bool] = (False, False)) -> Page:
    """Return the plans ranked where machines fail, the answer first; ``several`` clusters, and counts."""
    best = found.plans[0]
    job, lost = best.answer.job, best.lost
    head = (
        f"{job.model.name}: {best.recovery.name}, a checkpoint every {every(best)}: goodput "
        f"{percent(best.goodput)}{_to_train(best)}"
    )
    rows = tuple(_row(str(rank), one, several) for rank, one in enumerate(found.plans, 1))
    parts = {name.replace("_", " "): share for name, share in asdict(lost).items() if share >= 5e-4}
    told = ", ".join(f"{percent(share)} to {name}" for name, share in parts.items()) or "nothing"
    lines = [f"Plan 1 loses {told}.", *basis_lines(best)]
    lines += [f"Left out: {name} ({why})." for name, why in found.refused.items()]
    return [head, Table(rows), "\n".join(lines)]


def every(one: Reliable) -> str:
    """Return the time between checkpoints in storage in words."""
    seconds = one.far_steps * one.mode_step
    return f"{significant(seconds / 60, 3)} min ({one.far_steps:,} steps)"


def _to_train(one: Reliable) -> str:
    if one.days_to_train is None:
        return ""
    alone = significant(one.answer.bill.days_to_train, 3)
    return (
        f"; {significant(one.days_to_train, 3)} days to train ({alone} without failures), "
        f"{money(one.usd_to_train)}"
    )


def _row(rank: str, one: Reliable, several: tuple[bool, bool]) -> dict[str, str]:
    where = [one.answer.job.hardware.name] * several[0] + [f"{one.gpus:,}:"] * any(several)
    return {
        "#": rank,
        "layout": " ".join([*where, layout(one.answer.plan)]),
        "recovery": one.recovery.name,
        "s/step": significant(one.answer.step, 3),
        "with failures": significant(one.step, 3),
        "goodput": percent(one.goodput),
        "save every": significant(one.far_steps * one.mode_step / 60, 3) + " min",
        **({"days": significant(one.days_to_train, 3)} if one.days_to_train is not None else {}),
        **({"k$": f"{one.usd_to_train / 1e3:,.0f}"} if one.usd_to_train is not None else {}),
    }


def basis_lines(one: Reliable) -> list[str]:
    """Say what the figures rest on: rate of failures, checkpoint, times of the recovery, host memory."""
    rate, near = one.failures, one.near
    source = "; ".join(sorted(set(rate.sources.values()))) or rate.note
    lines = [
        f"A failure every {significant(one.mtbf / HOUR, 3)} h ({rate.name}: {source}"
        f"{'; ' * bool(rate.doubt)}{rate.doubt}).",
        f"A checkpoint is {significant(one.state_bytes / GB, 3)} GB: training pauses "
        f"{significant(one.far.stall, 2)} s to copy it (planning it is not counted), and writing it at "
        f"{significant(one.storage / GB, 3)} GB/s takes {significant(one.state_bytes / one.storage, 3)} s.",
        f"Recovery takes {significant(one.far.back, 3)} s from storage"
        + (
            ""
            if near is None
            else f", {significant(near.back, 3)} s from copies in memory ({percent(one.cured)} of failures)"
        )
        + f" ({one.recovery.cite}).",
    ]
    if not one.recovery.runner:
        lines.append(f"No known runner has {one.recovery.name}: it is priced, and no files are written.")
    elif one.recovery.beside:
        lines.append(f"{one.recovery.name} needs {one.recovery.beside}.")
    if one.host_bytes:
        lines.append(f"Copies take {significant(one.host_bytes / GIB, 3)} GiB of each node's memory.")
    if one.mode_step > one.answer.step:
        lines.append(
            f"Without failures {one.recovery.name} takes {significant(one.mode_step, 3)} s a step: "
            f"{one.recovery.mode_note}."
        )
    return [*lines, *learning_lines(one)]


def learning_lines(one: Reliable) -> list[str]:
    """Say what a recovery costs in learning, which is no arithmetic: goodput at the least and at the most."""
    least, most = one.recovery.learning
    if most == 0:
        return []
    if one.relearned is not None:
        return [f"Each recovery is taken to cost {one.relearned:g} steps of learning, as you say."]
    shares = [percent(replace(one, relearned=steps).goodput) for steps in (least, most)]
    return [
        f"Results change: each recovery costs {least:g} to {most:g} steps of learning, an estimate that no "
        f"paper prints; goodput {shares[0]} at {least:g}, {shares[1]} at {most:g}, which is ranked. Other "
        f"steps: --recovery {one.recovery.name}:20steps."
    ]


def reliable_record(one: Reliable) -> dict[str, Any]:
    """Return a plan with its failures as one record."""
    near = one.near
    return {
        "recovery": one.recovery.name,
        "failures": one.failures.name,
        "mtbf_s": one.mtbf,
        "checkpoint_bytes": one.state_bytes,
        "checkpoint_stall_s": one.far.stall,
        "checkpoint_written_s": one.state_bytes / one.storage,
        "restart_s": one.far.back,
        "steps_between_checkpoints": one.far_steps,
        "interval_s": one.far_steps * one.mode_step,
        "steps_between_copies": one.near_steps,
        "copy_stall_s": None if near is None else near.stall,
        "copy_restart_s": None if near is None else near.back,
        "cured_share": one.cured,
        "host_memory_bytes_per_node": one.host_bytes,
        "healthy_step_time_s": one.mode_step,
        "expected_step_time_s": one.step,
        "goodput": one.goodput,
        "learning_steps": list(one.learning_steps),
        "lost": asdict(one.lost),
        "mfu": one.answer.mfu * one.goodput,
        "failures_to_train": one.failures_to_train,
        "days_to_train": one.days_to_train,
        "cost_usd_to_train": one.usd_to_train,
    }


def goodput_search_document(found: Reckoned) -> Document:
    """Return the plans ranked where machines fail as JSON; each has the whole estimate too."""
    document: Document = plain(
        {
            "schema": RELIABLE,
            "plans": [
                reliable_record(one) | {"estimate": estimate_document(one.answer, {})} for one in found.plans
            ],
            "left_out": found.refused,
            "elapsed_s": 0.0 if found.result is None else found.result.elapsed,
        }
    )
    return document


def goodput_rows(found: Reckoned) -> list[dict[str, Any]]:
    """Return the plans as rows with the same keys."""
    rows = []
    for one in found.plans:
        record = reliable_record(one)
        lost = {f"lost_{name}": share for name, share in record.pop("lost").items()}
        head = {"gpus": one.gpus, "layout": layout(one.answer.plan), "step_time_s": one.answer.step}
        rows.append(plain(head | record | lost))
    return rows
