"""The run card: what was planned, what to see in the first log lines, and how to send measurements back."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping

from planner.calibrate.runs.table import COLUMNS
from planner.dataclasses import dataclass, field
from planner.inputs.model import Attention, DenseFfn, ModelSpec
from planner.inputs.workload import Workload
from planner.launchers.family import VARIABLES, Launcher
from planner.plan import MESH, Plan
from planner.printable import as_cell
from planner.runtimes.family import Command, Job, Runtime
from planner.runtimes.variables import without_effect

MEASURED = "measured.csv"
CARD = "README.md"
PLAN = "plan.yaml"


@dataclass(frozen=True)
class Card:
    """What the card takes from the estimate, as text."""

    plan_file: str = ""
    """The plan as YAML, from which everything can be repeated; empty where there is none."""
    summary: str = ""
    """The estimate as a table: time, memory for each stage, its band."""
    expected: Mapping[str, str] = field(default_factory=dict)
    """What the first log lines should show, name to value with unit."""


def card_text(
    plan: Plan, job: Job, runtime: Runtime, launcher: Launcher, command: Command, card: Card
) -> str:
    """Return the run card as markdown."""
    needs = dict.fromkeys((*command.production_needs, *command.needs, *launcher.needs))
    hardware = f"{job.gpus} × {job.hardware.pool.accelerator.name} ({_inline(job.hardware.name)})"
    parts = [
        f"# {_inline(job.model.name)} on {hardware}",
        f"{runtime.title}, started by {launcher.title}. The plan is `{plan.slug}`.",
        "## Start",
        "\n".join(f"- `{name}`: {VARIABLES[name]}" for name in needs),
        f"```sh\n{launcher.start}\n```",
        *_more(launcher, command),
        "## Plan",
        _table({name: value for name, value in plan.as_dict().items() if value is not None}),
    ]
    if card.summary:
        parts += ["## Estimate", f"```text\n{card.summary.strip()}\n```"]
    if card.expected:
        parts += ["## What the first steps should show", _table(card.expected)]
    if command.notes:
        parts += ["## Know before you start", "\n".join(f"- {note}" for note in command.notes)]
    parts += [
        "## Measured against predicted",
        f"Write the measured step time and memory into `{MEASURED}`, then:",
        f"```sh\nplanner validate {MEASURED}\n```",
    ]
    return "\n\n".join(parts) + "\n"


def _more(launcher: Launcher, command: Command) -> list[str]:
    """Return how to try the plan first, and what may be set."""
    parts = []
    if command.smoke is not None:
        parts.append(
            f"Try it first: `SMOKE=1 {launcher.start}` runs twenty steps on made-up data, without "
            "checkpoints, and ends with the command that holds its speed against this estimate."
        )
    defaults = dict.fromkeys(command.where_set, "") | dict(command.defaults)
    rows = [f"| `{name}` | {VARIABLES[name]} | {value} |" for name, value in defaults.items()]
    if rows:
        head = ["What may be set:", "", "| variable | meaning | otherwise |", "| --- | --- | --- |"]
        parts.append("\n".join([*head, *rows]))
    if idle := without_effect(command.variables):
        reasons: dict[str, list[str]] = {}
        for name, why in idle.items():
            reasons.setdefault(why, []).append(f"`{name}`")
        told = "; ".join(f"{' and '.join(names)}: {why}" for why, names in reasons.items())
        parts.append(f"Without effect here: {told}.")
    return parts


def _inline(text: str) -> str:
    """Return ``text`` on one line, with nothing that markdown reads as more than text."""
    return "".join(letter if letter.isalnum() or letter in " .-_" else " " for letter in text).strip()


def _table(rows: Mapping[str, object]) -> str:
    lines = [f"| {name} | {_inline_list(value)} |" for name, value in rows.items()]
    return "\n".join(["| | |", "| --- | --- |", *lines])


def _inline_list(value: object) -> str:
    text = " ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
    return text.replace("|", "\\|").replace("\n", " ")


def _architecture(model: ModelSpec) -> dict[str, object]:
    """Return the columns of a model whose layers are all alike and dense; others are known by their name."""
    block = model.blocks[model.layers[0]]
    mixer, ffn = block.mixer, block.ffn
    if len(set(model.layers)) > 1 or not isinstance(mixer, Attention) or not isinstance(ffn, DenseFfn):
        return {}
    return {
        "num_layers": model.num_layers,
        "hidden": model.hidden,
        "ffn_hidden": ffn.inner,
        "gated_mlp": int(ffn.gated),
        "heads": mixer.heads,
        "kv_heads": mixer.kv_heads,
        "head_dim": mixer.head_dim,
        "vocab": model.vocab,
        "tied_embeddings": int(model.tied_embeddings),
    }


def _fine_tuning(work: Workload) -> dict[str, object]:
    """Return the columns about adapters and packed documents, blank where a run has neither."""
    row: dict[str, object] = {"document_tokens": work.document_tokens} if work.document_tokens else {}
    if work.method == "full":
        return row
    targets = "+".join(work.lora_targets or ("all",))
    return row | {"method": work.method, "lora_rank": work.lora_rank, "lora_targets": targets}


def measured_row(plan: Plan, job: Job, runtime: Runtime) -> str:
    """Return a run table with one row: the plan's columns filled, the measured ones left blank."""
    degrees = plan.as_dict()
    work, pool = job.workload, job.hardware.pool
    row: dict[str, object] = {
        "id": f"mine-{plan.slug}",
        "source": "mine",
        "ref": CARD,
        "gpu": pool.accelerator.name,
        "gpus_per_node": pool.gpus_per_node,
        "num_gpus": job.gpus,
        "model": job.model.name,
        **_architecture(job.model),
        "seq_len": work.seq_len,
        "framework": runtime.name,
        **{name: degrees[name] for name in (*MESH, "dp")},
        "cp_method": plan.cp_method,
        "zero": plan.zero,
        "seq_parallel": int(plan.sequence_parallel),
        "micro_batch": degrees["micro_batch"],
        "global_batch": work.global_batch,
        "recompute": plan.recompute,
        "precision": work.precision,
        "schedule": plan.schedule,
        "offload": plan.offload,
        **_fine_tuning(job.workload),
    }
    if plan.stage_layers is not None:
        row["notes"] = f"layers of each virtual stage: {plan.split_text}"
    text = io.StringIO()
    writer = csv.DictWriter(text, list(COLUMNS), lineterminator="\n")
    writer.writeheader()
    writer.writerow({name: as_cell(value) for name, value in row.items()})
    return text.getvalue()
