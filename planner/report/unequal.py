"""Unequal lengths in an answer: packing, imbalance, ranks by length, and what they cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

from planner.cost.estimate import Estimate
from planner.cost.step.uneven_steps import UnevenSteps
from planner.report.page import Page, Table, significant
from planner.units import percent


def lengths_record(answer: Estimate) -> dict[str, Any]:
    """Return what unequal lengths cost a plan, for a document; nothing where all are alike."""
    work = answer.job.workload
    if work.seq_lens is None:
        return {}
    steps, known = UnevenSteps(answer), UnevenSteps(answer).packed
    lengths = known.lengths
    return {
        "lengths": {
            "source": work.seq_lens,
            "documents": len(lengths),
            "mean_tokens": float(lengths.mean()),
            "median_tokens": float(sorted(lengths)[len(lengths) // 2]),
            "longest_tokens": int(lengths.max()),
            "packed_to_tokens": work.seq_len,
            "filled_share": known.filled,
            "alone_filled_share": float(lengths.mean() / work.seq_len),
            "attended_tokens": known.attended,
            "waits": "pass" if steps.each_pass else "step",
            "imbalance": {
                "as_packed": float(known.costs.max()),
                "as_they_come": steps.imbalance(steps.arrived),
                "balanced": steps.imbalance(steps.balanced),
            },
            "even_step_s": steps.even,
            "sum_of_maxima_s": float(steps.seconds(steps.arrived, True).mean()),
            "maximum_of_sums_s": float(steps.seconds(steps.arrived, False).mean()),
            "balanced_step_s": float(steps.seconds(steps.balanced, steps.each_pass).mean()),
            "one_sided_gain": steps.one_sided_gain,
            "lost_share": 1.0 - steps.even / answer.step,
            "step_spread": steps.spread,
            "classes": [asdict(one) for one in steps.classes],
            "dynamic_cp": {
                "tokens_per_rank": steps.capacity,
                "step_time_s": steps.by_length.step,
                "unbalanced_step_s": steps.unbalanced,
                "speedup": answer.step / steps.by_length.step,
                "not_in_megatron": list(steps.dynamic_limits()),
            },
        }
    }


def lengths_page(answer: Estimate) -> Page:
    """Return the same for people."""
    record = lengths_record(answer).get("lengths")
    if record is None:
        return []
    waits, imbalance, dynamic = record["waits"], record["imbalance"], record["dynamic_cp"]
    rows = [
        {
            "documents of tokens": f"{one['least']:,} to {one['most']:,}",
            "share": percent(one["documents"]),
            "of tokens": percent(one["tokens"]),
            "ranks": str(one["ranks"]),
        }
        for one in record["classes"]
    ]
    refused = "; ".join(dynamic["not_in_megatron"])
    why = f" Megatron-LM cannot run it here: {refused}." if refused else ""
    gain = percent(record["one_sided_gain"])
    each, once = (significant(record[name]) for name in ("sum_of_maxima_s", "maximum_of_sums_s"))
    lost, spread = percent(record["lost_share"]), percent(record["step_spread"])
    before, after = imbalance["as_they_come"], imbalance["balanced"]
    told = " (told under bubble)" * bool(answer.plan.pp > 1)
    return [
        packed_line(record),
        f"Ranks wait for one another in each {waits}{told}: the busiest has {before:.2f} times "
        f"the mean attention, {after:.2f} times with sequences balanced. This costs {lost} of the throughput "
        f"(steps vary by {spread}); balanced, a step takes {significant(record['balanced_step_s'])} s. "
        f"Waiting in each pass takes {each} s, once a step {once} s (ODC, arXiv:2601.19362: {gain}).",
        "With context parallelism by length (ByteScale, arXiv:2502.21231), at "
        f"{dynamic['tokens_per_rank']:,.0f} tokens on a rank, a step takes "
        f"{significant(dynamic['step_time_s'])} s, {dynamic['speedup']:.2f} times as fast "
        f"({significant(dynamic['unbalanced_step_s'])} s unless work is balanced; Megatron-LM: "
        f"--set dynamic_context=true).{why}",
        Table(tuple(rows)),
    ]


def packed_line(record: Mapping[str, Any]) -> str:
    """Return how documents are packed."""
    return (
        f"Lengths: {record['documents']:,} documents of {record['mean_tokens']:,.0f} tokens on average, "
        f"packed to {record['packed_to_tokens']:,} ({percent(record['filled_share'])} filled; "
        f"{percent(record['alone_filled_share'])} with one in each)."
    )


LEAST_LOST: Final = 0.005
"""Share of the throughput from which its loss is told where there is little room. [-]"""


def short_lengths(answer: Estimate) -> list[str]:
    """Return how documents are packed, and what their waits cost, in little room."""
    record = lengths_record(answer).get("lengths")
    if record is None:
        return []
    packed, lost = packed_line(record), record["lost_share"]
    if lost < LEAST_LOST:
        return [packed]
    before, after = (record["imbalance"][name] for name in ("as_they_come", "balanced"))
    return [
        f"{packed} Waits cost {percent(lost)} of the throughput (steps vary by "
        f"{percent(record['step_spread'])}): the busiest rank has {before:.2f} times the mean attention, "
        f"{after:.2f} balanced; -v: by length."
    ]
