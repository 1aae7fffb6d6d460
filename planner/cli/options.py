"""Options that several commands share, each defined once: records whose fields a command takes as its own."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import StrEnum
from functools import wraps
from typing import Annotated, Any, get_type_hints

import typer

from planner.cli import complete


class Format(StrEnum):
    """How an answer is printed."""

    table = "table"
    json = "json"
    csv = "csv"
    markdown = "markdown"


FormatOption = Annotated[Format, typer.Option("--format", help="How the answer is printed.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no notes.")]
VerboseOption = Annotated[
    bool, typer.Option("--verbose", "-v", help="Print the whole answer, and progress on standard error.")
]
ForceOption = Annotated[bool, typer.Option("--force", help="Overwrite files that exist.")]
StepTimeOption = Annotated[
    str | None,
    typer.Option(metavar="S", help="Measured seconds of an optimizer step.", show_default=False),
]
TokenRateOption = Annotated[
    str | None,
    typer.Option(metavar="X", help="Measured tokens/s of all accelerators.", show_default=False),
]


def _option(name: str, metavar: str, text: str, words: complete.Complete | None = None) -> Any:
    return typer.Option(f"--{name}", metavar=metavar, help=text, show_default=False, autocompletion=words)


Text = str | None
Texts = list[str] | None


@dataclass(frozen=True)
class JobOptions:
    """What is planned: model, clusters, workload and runtimes, as the user wrote them."""

    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="A name from `planner models list`, an id of the Hugging Face Hub, a config.json or its "
            "folder, or a model YAML.",
            autocompletion=complete.model,
        ),
    ]
    hardware: Annotated[
        Texts,
        _option(
            "hardware",
            "NAME",
            "A cluster from `planner hardware list`, a profile YAML, or an accelerator (h100, 8xH100); "
            "several are compared.",
            complete.cluster,
        ),
    ] = None
    gpus: Annotated[
        Text,
        _option(
            "gpus",
            "N|A..B|A,B",
            "Accelerators; a range or a list to choose from. [default: what the profile has]",
        ),
    ] = None
    nodes: Annotated[Text, _option("nodes", "N|A..B|A,B", "The same in whole nodes of the cluster.")] = None
    gpus_per_node: Annotated[
        Text, _option("gpus-per-node", "N", "Accelerators of a node in use. [default: all]")
    ] = None
    memory_limit: Annotated[
        Text, _option("memory-limit", "GIB", "Device memory that may be used. [default: all that it reports]")
    ] = None
    seq_len: Annotated[
        Text,
        _option(
            "seq-len", "N", "Tokens of a sequence: 8192, 128K. [default: 4096, or the learned positions]"
        ),
    ] = None
    global_batch: Annotated[
        Text, _option("global-batch", "N", "Sequences of an optimizer step. [default: 512]")
    ] = None
    global_batch_tokens: Annotated[
        Text,
        _option("global-batch-tokens", "N", "The same in tokens, such as 4M (4 x 1,048,576) or 4194304."),
    ] = None
    precision: Annotated[
        Text,
        _option(
            "precision",
            "NAME",
            "bf16, fp16, fp8, fp8-delayed, fp8-block, mxfp8 or nvfp4. [default: bf16]",
            complete.precision,
        ),
    ] = None
    optimizer: Annotated[
        Text,
        _option("optimizer", "NAME", "adamw, adam8bit, muon or sgd. [default: adamw]", complete.optimizer),
    ] = None
    state_dtype: Annotated[
        Text, _option("state-dtype", "DTYPE", "Dtype of optimizer states. [default: the optimizer's]")
    ] = None
    master_dtype: Annotated[
        Text, _option("master-dtype", "DTYPE", "Dtype of master weights. [default: the optimizer's]")
    ] = None
    gradient_dtype: Annotated[
        Text, _option("gradient-dtype", "DTYPE", "Dtype of kept gradients. [default: the runtime's]")
    ] = None
    tokens: Annotated[
        Text, _option("tokens", "N", "Training tokens, such as 1.5T or 15e12, for time and cost to train.")
    ] = None
    method: Annotated[
        Text,
        _option("method", "NAME", "What is trained: full, lora or qlora. [default: full]", complete.method),
    ] = None
    lora_rank: Annotated[Text, _option("lora-rank", "N", "Rank of the adapters. [default: 16]")] = None
    lora_targets: Annotated[
        Text,
        _option("lora-targets", "A+B", "Linear layers with adapters: qkv, proj, fc1, fc2. [default: all]"),
    ] = None
    document_tokens: Annotated[
        Text,
        _option(
            "document-tokens", "N", "Mean length of packed documents that attention keeps to. [default: none]"
        ),
    ] = None
    imbalance: Annotated[
        Text, _option("imbalance", "X", "Tokens of the busiest expert over the mean. [default: 1]")
    ] = None
    price: Annotated[
        Texts,
        _option(
            "price",
            "USD_PER_HOUR[=CLUSTER]",
            "Price of an accelerator and hour, of all clusters or of one. [default: the profile's]",
        ),
    ] = None
    runtime: Annotated[
        Texts,
        _option(
            "runtime",
            "NAME[@RELEASE]",
            "Training framework, and its release; several are ranked together. [default: megatron-lm]",
            complete.runtime,
        ),
    ] = None
    target_version: Annotated[
        Text,
        _option("target-version", "RELEASE", "Release of the runtime or of --target. [default: the newest]"),
    ] = None
    changes: Annotated[
        Texts,
        _option("set", "NAME=VALUE", "Pin a setting or trait of the runtime: cuda_graphs=attention."),
    ] = None


@dataclass(frozen=True)
class PlanOptions:
    """Axes of a plan that the user has set, as written."""

    tp: Annotated[Text, _option("tp", "N", "Tensor parallel degree.")] = None
    pp: Annotated[Text, _option("pp", "N", "Pipeline stages.")] = None
    vpp: Annotated[Text, _option("vpp", "N", "Chunks on each pipeline rank.")] = None
    cp: Annotated[Text, _option("cp", "N", "Context parallel degree.")] = None
    ep: Annotated[Text, _option("ep", "N", "Expert parallel degree.")] = None
    etp: Annotated[Text, _option("etp", "N", "Tensor parallel degree inside an expert.")] = None
    dp: Annotated[Text, _option("dp", "N", "Data parallel degree, without cp.")] = None
    zero: Annotated[
        Text, _option("zero", "0..3", "Sharded over data parallel: 1 optimizer, 2 + gradients, 3 + weights.")
    ] = None
    zero_shards: Annotated[
        Text, _option("zero-shards", "N", "Ranks over which it shards. [default: dp x cp]")
    ] = None
    micro_batch: Annotated[Text, _option("micro-batch", "N", "Sequences of a rank and pass.")] = None
    recompute: Annotated[
        Text,
        _option(
            "recompute",
            "NAME",
            "none, selective, selective:MODULE+MODULE, full or full:N.",
            complete.recompute,
        ),
    ] = None
    sequence_parallel: Annotated[
        bool | None,
        typer.Option(
            "--sequence-parallel/--no-sequence-parallel",
            help="Split norms and residuals along the sequence.",
            show_default=False,
        ),
    ] = None
    cp_method: Annotated[
        Text,
        _option(
            "cp-method",
            "NAME",
            "ring, all-gather, all-to-all, usp, burst or lightseq.",
            complete.cp_method,
        ),
    ] = None
    schedule: Annotated[
        Text,
        _option(
            "schedule", "NAME", "Order of the passes, such as 1f1b or interleaved-1f1b.", complete.schedule
        ),
    ] = None
    offload: Annotated[
        Text,
        _option(
            "offload",
            "NAME",
            "In host memory: none, optimizer, or activations:N (N layers).",
            complete.offload,
        ),
    ] = None
    stage_layers: Annotated[
        Text,
        _option(
            "stage-layers",
            "N,N,...",
            "Layers of each virtual stage; 1m,0: prediction layers before a loss alone. [default: even]",
        ),
    ] = None


@dataclass(frozen=True)
class OutputOptions:
    """How an answer is printed, and what is told beside it."""

    output: FormatOption = Format.table
    quiet: QuietOption = False
    verbose: VerboseOption = False


def spread(function: Callable[..., None]) -> Callable[..., None]:
    """Return a command that takes the fields of its records as options of its own.

    Parameters
    ----------
    function : callable
        Its parameters are records of options, which are spread, and options, which stay.

    Returns
    -------
    callable
        With a signature that typer reads.
    """
    hints = get_type_hints(function, include_extras=True)
    parameters: list[inspect.Parameter] = []
    records: dict[str, type[Any]] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if is_dataclass(hints[name]):
            records[name] = hints[name]
            parameters += _fields_as_parameters(hints[name])
        else:
            kind = inspect.Parameter.KEYWORD_ONLY
            parameters.append(parameter.replace(annotation=hints[name], kind=kind))

    @wraps(function)
    def command(**values: Any) -> None:
        built = {
            name: kind(**{field.name: values.pop(field.name) for field in fields(kind)})
            for name, kind in records.items()
        }
        function(**built, **values)

    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command


def _fields_as_parameters(record: type[Any]) -> list[inspect.Parameter]:
    hints = get_type_hints(record, include_extras=True)
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.default is MISSING else field.default,
            annotation=hints[field.name],
        )
        for field in fields(record)
    ]
