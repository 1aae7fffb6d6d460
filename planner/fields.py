"""The fields of a question, each declared once: what a job is, the axes of a plan, what a search minimises.

The options of the command line with their help and completion, the keywords of the Python API, the axes of a
sweep's grid, the keys of the configuration and of plan files are made of these tables, and
`planner.question.reading` reads a value of each kind.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, Literal

from planner.dataclasses import dataclass

Kind = Literal[
    "amount", "context", "count", "counts", "dtype", "length", "memory", "name", "number", "offload",
    "lengths", "recompute", "split", "switch", "targets", "text", "word",
]  # fmt: skip
"""How a value is written and what it becomes: a method of `planner.question.reading.Reading`."""

MOST_COUNT: Final = 10**9
"""The largest count that any field takes."""


@dataclass(frozen=True)
class Field:
    """One field of a question."""

    name: str
    """Keyword of the API, key of a file; the option is the same with hyphens."""
    kind: Kind = "text"
    """How it is written and what it becomes."""
    metavar: str = "N"
    help: str = ""
    """What help shows for a value, and one sentence about it."""
    default: Any = None
    """What is taken where nobody says; None where that follows from something else."""
    otherwise: str = ""
    """The same in words, where the default alone would not say it."""
    least: float = 1
    most: float = MOST_COUNT
    """Bounds, both allowed. [unit]"""
    unit: str = "-"
    """Unit of the value."""
    table: str = ""
    """Where the names are that it takes, ``module:NAME``: a mapping, or a function that returns them."""
    several: bool = False
    """Whether it may be given more than once."""
    option: str = ""
    """The option, where it is not the name."""
    derived: bool = False
    """Whether it follows from others, so that only a file says it."""
    configured: bool = False
    """Whether files and variables of the user may set it."""
    gridded: bool = True
    """Whether it is an axis of a sweep's grid."""
    elsewhere: str = ""
    """What other programs call it, separated by spaces."""

    @property
    def flag(self) -> str:
        """The option of the command line.

        Examples
        --------
        >>> FIELDS["micro_batch"].flag, FIELDS["changes"].flag, FIELDS["model"].flag
        ('--micro-batch', '--set', 'MODEL')
        """
        return self.option or f"--{self.name.replace('_', '-')}"

    @property
    def text(self) -> str:
        """The help, with what is taken where nobody says."""
        return f"{self.help} [default: {self.otherwise}]" if self.otherwise else self.help

    def names(self) -> Iterable[str]:
        """Return the names that it takes; what that needs is imported now."""
        module, _, attribute = self.table.partition(":")
        found = getattr(importlib.import_module(module), attribute)
        names: Iterable[str] = found() if callable(found) else found
        return names


JOB: Final = (
    Field(
        "model", metavar="MODEL", option="MODEL", table="planner.inputs.load:model_names",
        help="A name from `planner models list`, an id of the Hugging Face Hub, a config.json or its folder, "
        "or a model YAML.",
        elsewhere="model model-name model-name-or-path hf-model config",
    ),
    Field(
        "hardware", metavar="NAME", several=True, configured=True,
        table="planner.inputs.load_hardware:cluster_names",
        help="A cluster from `planner hardware list`, a profile YAML, or an accelerator (h100, 8xH100); "
        "several are compared.",
        elsewhere="hw cluster machine device gpu-type accelerator profile",
    ),
    Field(
        "gpus", "counts", "N|A..B|A,B", configured=True,
        help="Number of accelerators, or a range or list to choose from.", otherwise="what the profile has",
        elsewhere="num-gpus n-gpus ngpus gpu-count world-size nproc num-devices devices ranks",
    ),
    Field(
        "nodes", "counts", "N|A..B|A,B", help="Number of whole nodes, in place of --gpus.", gridded=False,
        elsewhere="num-nodes nnodes n-nodes node-count",
    ),
    Field(
        "gpus_per_node", "count", most=1024, configured=True,
        help="Accelerators to use in each node.", otherwise="all",
        elsewhere="nproc-per-node num-gpus-per-node ngpus-per-node devices-per-node",
    ),
    Field(
        "memory_limit", "memory", "GIB", unit="byte", configured=True,
        help="Device memory that a plan may use.", otherwise="all that the device reports",
        elsewhere="max-memory gpu-memory memory mem",
    ),
    Field(
        "seq_len", "length", unit="token", most=2**27, configured=True,
        help="Sequence length in tokens: 8192, 128K.",
        default=4096, otherwise="4096, or fewer where the model has fewer positions",
        elsewhere="seq seq-length sequence-length sequence-len max-seq-len max-length context context-length "
        "ctx max-position-embeddings",
    ),
    Field(
        "global_batch", "length",
        help="Sequences per optimizer step.", default=512,
        otherwise="512; 32 with lora or qlora; fewer where that is above 16Mi tokens",
        elsewhere="global-batch-size gbs train-batch-size total-batch-size",
    ),
    Field(
        "global_batch_tokens", "amount", unit="token",
        help="Global batch in tokens, such as 4M (4 x 1,048,576) or 4194304.",
        elsewhere="batch-tokens tokens-per-batch tokens-per-step",
    ),
    Field(
        "precision", "name", "NAME", table="planner.techniques.precision:PRECISIONS", configured=True,
        help="bf16, fp16, fp8, fp8-delayed, fp8-block, mxfp8 or nvfp4.", default="bf16", otherwise="bf16",
        elsewhere="dtype bf16 fp16 fp8 mixed-precision",
    ),
    Field(
        "optimizer", "name", "NAME", table="planner.techniques.optimizers:OPTIMIZERS", configured=True,
        help="adamw, adam8bit, adam8bit-bnb, dion, lion, muon, sgd or shampoo.", default="adamw",
        otherwise="adamw", elsewhere="optim",
    ),
    Field("state_dtype", "dtype", "DTYPE", "Dtype of optimizer states.", otherwise="the optimizer's"),
    Field("master_dtype", "dtype", "DTYPE", "Dtype of master weights.", otherwise="the optimizer's"),
    Field("gradient_dtype", "dtype", "DTYPE", "Dtype of kept gradients.", otherwise="the runtime's"),
    Field(
        "tokens", "amount", unit="token",
        help="Tokens to train on, such as 1.5T or 15e12; adds the total time and cost.",
        elsewhere="train-tokens num-tokens total-tokens",
    ),
    Field(
        "method", "name", "NAME", table="planner.techniques.methods:METHODS",
        help="What is trained: full, lora, qlora, projector or zeroth-order.",
        default="full", otherwise="full",
        elsewhere="lora qlora finetune fine-tune peft",
    ),
    Field(
        "lora_rank", "count", most=65536, help="Rank of the adapters.", default=16, otherwise="16",
        elsewhere="lora-r rank",
    ),
    Field(
        "lora_targets", "targets", "A+B",
        help="Linear layers with adapters: qkv, proj, fc1, fc2; ends trains embedding and head too.",
        otherwise="all",
    ),
    Field(
        "document_tokens", "length", unit="token", most=2**27,
        help="Mean length of packed documents, where attention does not cross them.", otherwise="none",
    ),
    Field(
        "seq_lens", "lengths", "FILE|LAW",
        help="Lengths that are packed to --seq-len: a CSV, or lognormal:mean=8Ki,max=128Ki,seed=1.",
        otherwise="all alike", elsewhere="lengths sequence-lengths length-distribution",
    ),
    Field(
        "max_tokens_per_rank", "length", unit="token", most=2**27,
        help="Tokens of a sequence on a rank, with --seq-lens.", otherwise="seq-len / cp",
        elsewhere="max-seqlen-per-dp-cp-rank",
    ),
    Field(
        "images", "count", most=4096, default=1, otherwise="1",
        help="Images in a sequence, where the model has an encoder.",
        elsewhere="images-per-sample num-images",
    ),
    Field(
        "freeze_encoder", "switch", default=False,
        help="Do not train the encoder, where the model has one.", elsewhere="freeze-vision-model",
    ),
    Field(
        "train_projector", "switch", default=False,
        help="Train the projectors of an encoder that is not trained.",
        elsewhere="train-merger tune-mm-mlp",
    ),
    Field(
        "imbalance", "number", "X",
        help="Tokens routed to the busiest expert, over the mean.", default=1.0, otherwise="1",
    ),
    Field(
        "price", metavar="USD_PER_HOUR[=CLUSTER]", several=True, least=0, unit="USD/h",
        help="Price per accelerator-hour, for all clusters or for one.", otherwise="the profile's",
        elsewhere="cost usd-per-hour gpu-price",
    ),
    Field(
        "runtime", metavar="NAME[@RELEASE]", several=True, configured=True, table="planner.runtimes:runtimes",
        help="Training framework, optionally at a release; several are ranked together.",
        default="megatron-lm", otherwise="megatron-lm", elsewhere="framework engine backend",
    ),
    Field(
        "target_version", metavar="RELEASE",
        help="Release of the runtime or of --target.", otherwise="the newest",
    ),
    Field(
        "changes", metavar="NAME=VALUE", several=True, option="--set",
        help="Pin a setting or trait of the runtime: cuda_graphs=attention.",
    ),
)  # fmt: skip
"""What is planned: model, clusters, workload and runtimes."""


AXES: Final = (
    Field(
        "tp", "count", help="Tensor parallel degree.", default=1, most=10**7,
        elsewhere="tensor-parallel tensor-parallel-size tensor-parallel-degree tensor-model-parallel-size "
        "tp-size",
    ),
    Field(
        "pp", "count", help="Pipeline stages.", default=1, most=10**7,
        elsewhere="pipeline-parallel pipeline-parallel-size pipeline-parallel-degree pp-size "
        "pipeline-model-parallel-size",
    ),
    Field(
        "vpp", "count", help="Virtual pipeline chunks per rank.", default=1, most=10**7,
        elsewhere="virtual-pipeline interleave virtual-pipeline-model-parallel-size",
    ),
    Field(
        "cp", "count", help="Context parallel degree.", default=1, most=10**7,
        elsewhere="context-parallel context-parallel-size context-parallel-degree cp-size ulysses sp-size",
    ),
    Field(
        "ep", "count", help="Expert parallel degree.", default=1, most=10**7,
        elsewhere="expert-parallel expert-parallel-size expert-model-parallel-size ep-size",
    ),
    Field(
        "etp", "count", help="Tensor parallel degree inside an expert.", default=1, most=10**7,
        elsewhere="expert-tensor-parallel expert-tensor-parallel-size",
    ),
    Field(
        "dp", "count", help="Data parallel degree, not counting cp.", most=10**7,
        elsewhere="data-parallel data-parallel-size dp-size data-parallel-replicate-degree",
    ),
    Field(
        "zero", "count", "0..3", least=0, most=3, default=0,
        help="ZeRO stage: 1 shards optimizer states, 2 + gradients, 3 + weights.",
        elsewhere="zero-stage stage fsdp sharding use-distributed-optimizer distributed-optimizer",
    ),
    Field(
        "zero_shards", "count", default=1, most=10**7,
        help="Ranks that ZeRO shards over.", otherwise="dp x cp",
        elsewhere="data-parallel-shard-degree fsdp-size shard-degree hybrid-shard",
    ),
    Field(
        "micro_batch", "count", help="Sequences per rank and pass.", default=1, most=10**7,
        elsewhere="micro-batch-size mbs microbatch microbatch-size per-device-train-batch-size "
        "local-batch-size train-micro-batch-size-per-gpu",
    ),
    Field("num_microbatches", "count", help="Micro-batches per step and rank.", most=10**7, derived=True),
    Field(
        "recompute", "recompute", "NAME", table="planner.techniques.recompute:RECOMPUTES", default="none",
        help="none, selective, selective:MODULE+MODULE, full, full:N or stream:D.",
        elsewhere="activation-checkpointing gradient-checkpointing checkpointing ac ckpt "
        "recompute-granularity",
    ),
    Field(
        "sequence_parallel", "switch", default=False,
        help="Split norms and residuals along the sequence.", elsewhere="sp",
    ),
    Field(
        "cp_method", "context", "NAME", table="planner.techniques.context:CONTEXT_METHODS", default="ring",
        help="ring, double-ring, all-gather, all-to-all, usp, burst, token-ring, routed-ring, lightseq, dsp; "
        "METHOD+lasp, +lasp-2 or +zeco where linear layers pass on states.",
    ),
    Field(
        "schedule", "name", "NAME", table="planner.techniques.schedules:SCHEDULES", default="1f1b",
        help="Pipeline schedule, such as 1f1b or interleaved-1f1b.",
    ),
    Field(
        "offload", "offload", "NAME", table="planner.techniques.offload:OFFLOADS", default="none",
        help="What to keep off the device: none, optimizer, optimizer:40% (a share), weights, weights-alone, "
        "activations:N (N layers), modules:A+B (inputs of modules), or on disk optimizer-nvme, "
        "weights-optimizer-nvme, nvme.",
        elsewhere="cpu-offload optimizer-offload offload-optimizer",
    ),
    Field(
        "stage_layers", "split", "N,N,...", unit="layer",
        help="Layers per virtual stage; 1m,0: prediction layers, then a stage with only the loss.",
        otherwise="even",
    ),
    Field(
        "prediction_apart", "switch", default=False, derived=True,
        help="Whether prediction layers stand before a loss alone.",
    ),
)  # fmt: skip
"""The axes of a plan, by the names of `planner.plan.Plan`; those that are derived stand in plan files."""


SEARCH: Final = (
    Field(
        "objective", "word", "NAME", default="time", configured=True,
        help="What to minimise: time, cost, memory or energy of a step; goodput: time with failures.",
        elsewhere="minimize minimise optimize goal sort",
    ),
    Field(
        "oom_risk", "number", "SHARE", default=0.05, configured=True, least=0, most=1,
        help="Accepted probability of running out of memory.",
    ),
    Field(
        "top", "count", "K", default=5, most=1000, configured=True, gridded=False,
        help="Plans to show, each with a different mesh where possible.",
        elsewhere="top-k k limit num-plans",
    ),
    Field(
        "uniform", "switch", default=False,
        help="Use one recompute choice for all layers instead of assigning it layer by layer.",
    ),
    Field(
        "allow", metavar="SETTING", several=True, gridded=False,
        help="Let the search choose a setting that changes numerics, such as gradients.",
    ),
    Field(
        "slowdown", "number", "X", gridded=False, otherwise="1.25",
        help="With --objective memory: longest step allowed, in times the fastest plan's, or inf.",
    ),
)  # fmt: skip
"""What a search minimises, and how."""


FIELDS: Final[Mapping[str, Field]] = MappingProxyType({field.name: field for field in (*JOB, *AXES, *SEARCH)})
"""Every field by its name."""

PLAN_FORMAT: Final = "planner/plan/1"
"""What a file says that holds a plan."""

ASKED_AXES: Final = tuple(axis for axis in AXES if not axis.derived)
"""Axes that a user may set."""


def default(name: str) -> Any:
    """Return what is taken for a field where nobody says."""
    return FIELDS[name].default
