"""Help in groups: which options stand under which heading, and three examples of a command."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from planner.fields import ASKED_AXES

GROUPS: Final[Mapping[str, str]] = {
    "Model and cluster": "hardware gpus nodes gpus_per_node memory_limit price vocab_size source",
    "Workload": "seq_len global_batch global_batch_tokens precision tokens document_tokens seq_lens "
    "max_tokens_per_rank images freeze_encoder imbalance",
    "Training": "method lora_rank lora_targets optimizer state_dtype master_dtype gradient_dtype",
    "Runtime": "runtime target_version changes",
    "Layout (what is given is kept)": " ".join(axis.name for axis in ASKED_AXES),
    "Search": "near objective top oom_risk uniform allow slowdown synthesize front",
    "Failures": "failures recovery storage",
    "Several sites": "sync across inner_steps compress batch_shares",
    "Measured": "step_time tokens_per_s tokens_per_s_per_gpu oom log",
    "Files": "save emit out target launcher smoke flags force unfit",
    "Answer": "output quiet verbose help",
}
"""Headings of options, with the parameters below each; others stand under Options, before the answer."""

LONG: Final = 15
"""Options from which on a help has headings."""

COMMAND_GROUPS: Final[Mapping[str, str]] = {
    "Plan": "search estimate explain compare sweep budget phases partition balance cluster",
    "Run": "emit tune diagnose mfu goodput resume report simulate",
    "Measure": "validate benchmark calibrate profile check",
    "Look up": "models hardware runtimes glossary config completion",
}
"""Headings of commands, with those below each."""

EXAMPLES: Final[Mapping[str, tuple[str, str, str]]] = {
    "": (
        "planner search llama3-8b --hardware 8xh100",
        "planner estimate llama3-70b --hardware dgx-h100 --nodes 8 --tp 8 --pp 4",
        "planner estimate --from train.sh --hardware dgx-h100",
    ),
    "search": (
        "planner search llama3-70b --hardware dgx-h100 --nodes 8 --emit out/",
        "planner search Qwen/Qwen3-8B --hardware 4xrtx4090 --method lora",
        "planner search mixtral-8x7b --hardware dgx-h100 --gpus 16..64 --tokens 1T",
    ),
    "estimate": (
        "planner estimate llama3-8b --hardware 8xh100 --tp 2 --micro-batch 2",
        "planner estimate --from train.sh --hardware dgx-h100 --nodes 4",
        "planner estimate llama3-8b --hardware 8xh100 --zero 3 --format json",
    ),
    "diagnose": (
        "planner diagnose plan.yaml --log train.log",
        "planner diagnose train.sh --hardware dgx-h100 --tokens-per-s 95000",
        "planner diagnose llama3-8b --hardware 8xh100 --tp 2 --oom",
    ),
}
"""Three commands that work as they stand, by the command that they show; the empty name is the program."""


def group_options(command: Any) -> None:
    """Let a command with many options show them under headings, and its examples after them."""

    def format_options(ctx: Any, formatter: Any) -> None:
        rows = {one.name: row for one in command.get_params(ctx) if (row := one.get_help_record(ctx))}
        kinds = {one.name: one.param_type_name for one in command.get_params(ctx)}
        arguments = [row for name, row in rows.items() if kinds[name] == "argument"]
        options = {name: row for name, row in rows.items() if kinds[name] == "option"}
        for title, found in (("Arguments", arguments), *_grouped(options).items()):
            if found:
                with formatter.section(title):
                    formatter.write_dl(found)
        _write_examples(EXAMPLES.get(command.name, ()), formatter)

    command.format_options = format_options


def _grouped(options: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return the rows of options by their headings; all under one where they are few."""
    if len(options) < LONG:
        return {"Options": list(options.values())}
    named = {title: names.split() for title, names in GROUPS.items()}
    known = {name for names in named.values() for name in names}
    *first, last = named
    tables = {title: [options[name] for name in named[title] if name in options] for title in first}
    tables["Options"] = [row for name, row in options.items() if name not in known]
    return tables | {last: [options[name] for name in named[last] if name in options]}


def write_commands(lines: Mapping[str, str], formatter: Any) -> None:
    """Write the commands of the program under headings, and three examples."""
    named = {title: names.split() for title, names in COMMAND_GROUPS.items()}
    known = {name for names in named.values() for name in names}
    named["Other"] = [name for name in lines if name not in known]
    for title, names in named.items():
        rows = [(name, lines[name]) for name in names if name in lines]
        if rows:
            with formatter.section(title):
                formatter.write_dl(rows)
    _write_examples(EXAMPLES[""], formatter)


def _write_examples(examples: tuple[str, ...], formatter: Any) -> None:
    if examples:
        with formatter.section("Examples"):
            formatter.write("".join(f"  {line}\n" for line in examples))
