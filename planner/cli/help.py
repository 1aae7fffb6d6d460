"""Help in groups: which options stand under which heading, and three examples of a command."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from planner.fields import ASKED_AXES

GROUPS: Final[Mapping[str, str]] = {
    "Model and cluster": "hardware gpus nodes gpus_per_node memory_limit price vocab_size source",
    "Workload": "seq_len global_batch global_batch_tokens precision tokens document_tokens seq_lens "
    "max_tokens_per_rank images freeze_encoder train_projector imbalance",
    "Training": "method lora_rank lora_targets optimizer state_dtype master_dtype gradient_dtype",
    "Runtime": "runtime target_version changes",
    "Layout (what you set stays fixed)": " ".join(axis.name for axis in ASKED_AXES),
    "Search": "near objective top oom_risk uniform allow slowdown synthesize front",
    "Failures": "failures recovery storage",
    "Several sites": "sync across inner_steps compress batch_shares",
    "Measured": "step_time tokens_per_s tokens_per_s_per_gpu oom log",
    "Files": "save emit out target launcher smoke flags force unfit",
    "Answer": "output quiet verbose help",
}
"""Headings of options, with the parameters below each; others stand under Options, before the answer."""

OF_SEVERAL: Final[Mapping[str, str]] = {
    "hardware": "; several are compared",
    "gpus": ", or a range or list to choose from",
    "nodes": "",
    "runtime": "; several are ranked together",
}
"""What help says of several values, by the option: true only of commands that choose."""

TAKE_SEVERAL: Final[Mapping[str, frozenset[str]]] = {
    "hardware": frozenset({"search"}),
    "gpus": frozenset({"search"}),
    "nodes": frozenset({"search"}),
    "runtime": frozenset({"search", "budget"}),
}
"""Commands that choose among several values of an option."""

LONG: Final = 15
"""Options from which on a help has headings."""

COMMAND_GROUPS: Final[Mapping[str, str]] = {
    "Plan": "search estimate explain compare sweep budget phases rl partition balance cluster",
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


def write_help(command: Any, ctx: Any, formatter: Any) -> None:
    """Write the help of a command: its usage, what it does, its options under headings, and its examples."""
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    words = " ".join(["[OPTIONS]", *(_placeholder(one) for one in arguments)])
    formatter.write_usage(ctx.command_path, words)
    command.format_help_text(ctx, formatter)
    described = [(_name(one), _described(one)) for one in arguments]
    rows = {
        one.name: _for_one(one.name, command.name, row)
        for one in command.get_params(ctx)
        if one.param_type_name == "option" and (row := one.get_help_record(ctx))
    }
    for title, found in (("Arguments", described), *_grouped(rows).items()):
        if found:
            with formatter.section(title):
                formatter.write_dl(found)
    _write_examples(EXAMPLES.get(command.name, ()), formatter)


def write_group(group: Any, ctx: Any, formatter: Any) -> None:
    """Write the help of a group of commands, with the first sentence of each whole."""
    formatter.write_usage(ctx.command_path, "COMMAND [OPTIONS] ...")
    group.format_help_text(ctx, formatter)
    with formatter.section("Commands"):
        formatter.write_dl(
            [(name, " ".join(one.help.split("\n\n")[0].split())) for name, one in group.commands.items()]
        )
    with formatter.section("Options"):
        formatter.write_dl([group.get_help_option(ctx).get_help_record(ctx)])


def _name(argument: Any) -> str:
    """Return what an argument is called, without marks."""
    return str(argument.metavar or argument.name.upper()).strip("[].")


def _placeholder(argument: Any) -> str:
    """Return an argument as the line of usage has it: in brackets where it may be left out.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> _placeholder(SimpleNamespace(metavar="[WORD]...", required=False, nargs=-1))
    '[WORD]...'
    """
    name = _name(argument)
    return (name if argument.required else f"[{name}]") + ("..." if argument.nargs != 1 else "")


def _described(argument: Any) -> str:
    return str(argument.help) + ("" if argument.required or "[default" in argument.help else " [optional]")


def _for_one(name: str, command: str, row: tuple[str, str]) -> tuple[str, str]:
    """Return what help says of an option, without its words on several values where a command takes one."""
    words = OF_SEVERAL.get(name)
    if words is None or command in TAKE_SEVERAL[name]:
        return row
    return row[0].replace("N|A..B|A,B", "N"), row[1].replace(words, "")


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
