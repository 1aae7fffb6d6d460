"""Write the pages of techniques and runtimes from their tables: ``python docs/make_techniques.py``."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import planner.runtimes
from planner.calibrate.releases import releases
from planner.registry import load_family
from planner.runtimes.family import Runtime
from planner.runtimes.traits import TRAITS, Traits
from planner.techniques.adapters import ADAPTER_LIBRARIES
from planner.techniques.allocators import ALLOCATORS
from planner.techniques.attention import ATTENTION_KERNELS
from planner.techniques.attention_codes import ATTENTION_CODES
from planner.techniques.checkpointing import CHECKPOINTING
from planner.techniques.compress import COMPRESSIONS
from planner.techniques.context import CONTEXT_METHODS
from planner.techniques.dispatchers import DISPATCHERS
from planner.techniques.engines import ENGINES
from planner.techniques.experts import EXPERT_CODES
from planner.techniques.feedback import FEEDBACKS
from planner.techniques.graphs import GRAPHS
from planner.techniques.layouts import TOKEN_LAYOUTS
from planner.techniques.losses import LOSSES
from planner.techniques.methods import METHODS
from planner.techniques.norms import NORMS
from planner.techniques.offload import OFFLOADS
from planner.techniques.optimizer_steps import OPTIMIZER_STEPS
from planner.techniques.optimizers import OPTIMIZERS
from planner.techniques.pipelines import PIPELINE_CODES
from planner.techniques.precision import PRECISIONS
from planner.techniques.recompute import RECOMPUTES
from planner.techniques.recompute.family import MODULES
from planner.techniques.recovery import RECOVERIES
from planner.techniques.rings import RINGS
from planner.techniques.rotary_chains import ROTARY_CHAINS
from planner.techniques.routers import ROUTERS
from planner.techniques.scaling_laws import SCALING_LAWS
from planner.techniques.schedules import SCHEDULES
from planner.techniques.settings import SETTINGS
from planner.techniques.sharding import SHARDINGS
from planner.techniques.states import STATE_METHODS
from planner.techniques.sync import SYNCS
from planner.techniques.tensor import TENSOR_LIBRARIES

PAGE = Path(__file__).parent / "reference" / "techniques.md"
RUNTIMES_PAGE = PAGE.with_name("runtimes.md")
"""Where the pages stand."""

HEAD = """# Techniques

What a plan may name, from the tables in the code. Names are accepted in any case; so are the other spellings.
Each technique is one file; [the runtimes](runtimes.md) say what they can run of these,
[systems](systems.md) how a published one is asked for.
"""


def described(entry: object) -> str:
    """Return the first line of the docstring of the file that holds ``entry``."""
    for module in list(sys.modules.values()):
        if getattr(module, "ENTRY", None) is entry:
            return (module.__doc__ or "").strip().splitlines()[0]
    raise LookupError(f"{entry} stands in no file")


def number(value: object) -> str:
    """Return a number as short as it can be, a truth value as yes or no, words as they are."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(map(number, line)) + " |" for line in lines)


def common(entry: Any) -> list[str]:
    """Return what every table says of an entry: name, other spellings, what it is, source."""
    spellings = ", ".join(f"`{alias}`" for alias in entry.aliases)
    return [f"`{entry.name}`", spellings, described(entry), entry.cite]


def section(
    title: str, option: str, entries: Mapping[str, Any], more: Mapping[str, str], note: str = ""
) -> str:
    """Return one family: ``more`` are further columns, attribute to title."""
    header = ["name", "other spellings", "what it is", *more.values(), "source"]
    rows = []
    for entry in entries.values():
        *first, cite = common(entry)
        rows.append([*first, *(getattr(entry, name) for name in more), cite])
    return f"\n## {title}\n\n{option}\n\n{table(header, rows)}\n" + (f"\n{note}\n" if note else "")


def unoffered() -> str:
    """Return the optimizers that the files of no runtime ask for."""
    asked = {name for one in planner.runtimes.runtimes().values() for name in one.optimizers}
    return ", ".join(f"`{name}`" for name in OPTIMIZERS if name not in asked)


def page() -> str:
    """Return the whole page."""
    parts = [
        HEAD,
        section(
            "Schedules",
            "`--schedule`. *Split* says that input and weight gradients are passes of their own, *copies*\n"
            "how many times a rank holds its share of the weights.",
            SCHEDULES,
            {"splits_backward": "split", "weight_copies": "copies"},
        ),
        section(
            "Context parallelism", "`--cp-method`", CONTEXT_METHODS, {"overlaps": "hidden behind attention"}
        ),
        section(
            "Layouts of tokens",
            "Which rank has which tokens of a shared sequence; `planner balance` compares them for a mask.\n"
            "Prices take the mask to lie evenly.",
            TOKEN_LAYOUTS,
            {},
        ),
        section(
            "States of linear layers",
            "`--cp-method METHOD+NAME`: how layers that pass a state along share a sequence, while\n"
            "attention beside them keeps METHOD. Where none is named they exchange heads. No runner has\n"
            "these: estimates price them and say so, and no search tries them unasked.",
            STATE_METHODS,
            {},
        ),
        section(
            "Settings",
            "`--set NAME=VALUE` pins one, a search tries the others; what changes numerics it takes with\n"
            "`--allow NAME` alone.",
            SETTINGS,
            {"value_names": "values", "numerics": "changes numerics"},
        ),
        section("Sharding", "`--zero`, the number of the stage", SHARDINGS, {"stage": "`--zero`"}),
        section(
            "Engines",
            "`--set engine=NAME`, who keeps weights, gradients and optimizer states. *Lasting*: gradients\n"
            "live through the whole step where weights are whole; *at rest*: ZeRO-2 too shards weights\n"
            "between steps; *by rows*: each parameter is cut and padded by itself.",
            ENGINES,
            {"lasting": "lasting", "at_rest": "at rest", "pads_rows": "by rows", "runs": "run here"},
        ),
        section(
            "Allocators",
            "`--set allocator=NAME`, who finds a place for each tensor. *Needed* and *shown*: the least\n"
            "beside what passes take, as a share of that, on a full device and where there is room.\n"
            "*Again*: blocks are given back and asked for again (`retry_seconds`).",
            ALLOCATORS,
            {"needed": "needed [-]", "shown": "shown [-]", "retries": "again"},
        ),
        section(
            "Losses",
            "`--set loss=NAME`, how head and cross entropy run. *Live* and *moved*: bytes of one logit,\n"
            "gradient included, which `logit_bytes` and `loss_traffic` change. *Again*: parts\n"
            "(`loss_chunks`) run forward again in backward. *Held*: buffers stay through the first\n"
            "layer's backward.",
            LOSSES,
            {
                "logit_bytes": "live [byte]",
                "traffic": "moved [byte]",
                "reruns": "again",
                "beside_backward": "held",
            },
        ),
        section(
            "Attention kernels",
            "`--set attention=NAME`, what computes the core of attention. *Scores*: they go through memory\n"
            "and wait there for backward.",
            ATTENTION_KERNELS,
            {"keeps_scores": "scores"},
        ),
        section(
            "Calls of the attention kernel",
            "`--set attention_code=NAME`, whose code calls it. *Copies*: keys and values are repeated for\n"
            "all query heads and the output is copied; *sinks*: they scale the kernel's result.",
            ATTENTION_CODES,
            {"copies": "copies", "rescales_sinks": "sinks"},
        ),
        section(
            "Tensor parallelism",
            "`--set tensor_library=NAME`, whose layers cut products and the sequence. *Again*: inputs stay\n"
            "sharded along the sequence and are gathered again in backward; *low bits*: what is gathered is\n"
            "cast before.",
            TENSOR_LIBRARIES,
            {"regathers": "again", "low_bit_gathers": "low bits"},
        ),
        section(
            "Ring attention",
            "`--set ring_attention=NAME`, whose code runs attention on keys and values of other ranks.",
            RINGS,
            {"merges_each_step": "merges each step", "fp32_gradients": "gradients in fp32"},
        ),
        section(
            "Activation checkpointing",
            "`--set checkpointing=NAME`, how a layer that is recomputed whole runs again.",
            CHECKPOINTING,
            {
                "stops_early": "stops early",
                "gathers": "gathers again",
                "repeats_methods": "all layers",
            },
        ),
        section(
            "Dispatchers",
            "`--set dispatcher=NAME`, who sends tokens to their experts. *Sums*: a token comes back as one\n"
            "row, and not as one for each of its experts.",
            DISPATCHERS,
            {"sums": "sums"},
        ),
        section(
            "Recompute",
            "`--recompute`",
            RECOMPUTES,
            {},
            "`full:N` recomputes N layers of every stage, `selective:MODULE+MODULE` named parts of a layer:\n"
            + ", ".join(f"`{module}`" for module in MODULES)
            + ".\n\n"
            "`stream:D` needs what is whole of a layer and a D-th of the rest. No runner here has it:\n"
            "estimates price it and say so. Its head in parts is `loss_tiles`; beside a causal kernel it\n"
            "takes longer than `full`, since its parts compute scores that a mask throws away.",
        ),
        section(
            "Precision",
            "`--precision`. Bytes of copies for each weight of a linear layer, and of what backward keeps\n"
            "of an input.",
            PRECISIONS,
            {"weight_copies_bytes": "copies [byte]", "saved_input_bytes": "kept [byte]"},
        ),
        section(
            "Optimizers",
            "`--optimizer`. Bytes of one moment and of the master weight for each parameter, unless\n"
            "the user names dtypes.",
            OPTIMIZERS,
            {"states": "moments", "state_bytes": "each [byte]", "master_bytes": "master [byte]"},
            f"[The runtimes](runtimes.md) say whose files have which. No runtime here has {unoffered()}:\n"
            "run tables and launch files that have them are priced.",
        ),
        section(
            "Steps of an optimizer",
            "`--set optimizer_step=NAME`, whose code runs it. *Beside states*: bytes for each weight that a\n"
            "rank steps, which `step_bytes` changes; *casts*: gradients of fewer bits to fp32, and low-bit\n"
            "weights by way of 16 bit.",
            OPTIMIZER_STEPS,
            {"step_bytes": "beside states [byte]", "casts": "casts"},
        ),
        section(
            "Routers",
            "`--set router=NAME`, whose code chooses a token's experts.",
            ROUTERS,
            {"chained": "a chain", "reads_fp32": "reads fp32"},
        ),
        section(
            "Norms",
            "`--set norms=NAME`, whose code runs norms. *Kept*: bytes of an element that one of several\n"
            "kernels keeps besides, which `unfused_norm_bytes` changes.",
            NORMS,
            {"unfused_norm_bytes": "kept [byte]", "in_product": "in the product", "reads_fp32": "reads fp32"},
        ),
        section(
            "Rotary embeddings",
            "`--set rotary_chain=NAME`, how one turns that is no kernel of its own (`fused_rope` off).\n"
            "*Keeps*: what was turned waits for backward; *joins*: when a head's turned part is put beside\n"
            "the rest, so that attention's output is copied.",
            ROTARY_CHAINS,
            {"keeps": "keeps", "joins": "joins"},
        ),
        section(
            "Pipelines",
            "`--set pipeline_code=NAME`, whose code runs a pipeline's stages, whatever their schedule.\n"
            "*Scatters*: tensor-parallel ranks send a part of a whole message each; *occupies*: sender and\n"
            "receiver wait for it; *ends apart*: a stage goes on to its next step by itself.",
            PIPELINE_CODES,
            {"scatters": "scatters", "occupies": "occupies", "ends_apart": "ends apart"},
        ),
        section(
            "CUDA graphs",
            "`--set graphed=NAME`, what the host launches as one; without any, every kernel. *Router*: what\n"
            "comes before the dispatcher, where experts do not run again; *half*: half of a layer is left.",
            GRAPHS,
            {"whole": "all passes", "routes": "router", "attends": "half"},
        ),
        section(
            "Experts",
            "`--set experts=NAME`, whose code multiplies experts with the tokens that chose them. *Kept*:\n"
            "bytes of an element of a result, which `expert_result_bytes` changes.",
            EXPERT_CODES,
            {"result_bytes": "kept [byte]", "stacked": "one parameter", "every": "all tokens"},
        ),
        section(
            "Offload",
            "`--offload`. Bytes of each parameter of a shard that go to the host and come back in a step.",
            OFFLOADS,
            {
                "states": "states on",
                "weights": "weights on",
                "down_bytes": "down [byte]",
                "up_bytes": "up [byte]",
            },
            "`activations:N` moves what N layers of every stage save for backward; `planner search\n"
            "--offload activations` tries several N. Weights off the device come up for every gather, and\n"
            "states and weights on disk, the node's NVMe, both ways besides; a search tries the disk, and\n"
            "weights without their states, where nothing else fits.",
        ),
        section(
            "Methods",
            "`--method`. Bytes at rest of a weight without a gradient; 0 where all have one.",
            METHODS,
            {"frozen_weight_bytes": "frozen [byte]", "learns": "beside exact training"},
        ),
        section(
            "Adapters",
            "`--set adapters=NAME`, whose code puts them beside linear layers. *Separate*: queries, keys,\n"
            "values and halves of a gate have one each; *cast*: copies that learn beside them are in fp32.",
            ADAPTER_LIBRARIES,
            {"separate": "separate", "casts_copies": "cast"},
        ),
        section(
            "Recovery",
            "`--recovery`. Seconds from a failure until training goes on where a near copy is left, without\n"
            "loading it, and where all comes from storage.",
            RECOVERIES,
            {"level": "state from", "pause": "near [s]", "restart": "storage [s]"},
        ),
        section("Scaling laws", "`planner budget --law`", SCALING_LAWS, {"said": "law"}),
        section(
            "Sites",
            "`--sync`, how replicas at [several sites](../how-to/sites.md) keep together. *Copies* are of\n"
            "the parameters in 4 bytes, on accelerators and on hosts; *to the same loss* is what it costs\n"
            "in learning beside exact data parallelism.",
            SYNCS,
            {
                "sends": "sends",
                "hidden": "hidden behind",
                "device_copies": "copies",
                "passing_copies": "while it exchanges",
                "host_copies": "on hosts",
                "costs": "to the same loss",
                "run_by": "run by",
            },
        ),
        section(
            "Compression between sites",
            "`--compress`. Where partial sums cannot go round a ring, all replicas gather what all others\n"
            "send, which grows with their number.",
            COMPRESSIONS,
            {"about": "goes", "sums": "sums", "feedback": "keeps the rest by", "penalty": "to the same loss"},
        ),
        section(
            "What keeps what is not sent",
            "`--compress NAME+KEPT`. *Copies* are of the parameters in 4 bytes, each read and written at an\n"
            "exchange, by `planner/formulas/low_communication.py`.",
            FEEDBACKS,
            {"about": "keeps", "copies": "copies", "penalty": "known of learning"},
        ),
    ]
    return "".join(parts)


RUNTIMES_HEAD = """# Runtimes

What each training framework can run, and how it behaves, from the tables in the code: a search offers
nothing else. To add one, see [Add a runtime](../how-to/add-a-runtime.md). Constants fitted to
measured runs are not listed here; `planner explain` names those that a price rests on.

`--runtime NAME@RELEASE` (or `--target-version RELEASE`) asks for a release, by the runner's own version or by
NVIDIA's container that holds it; without one the newest is taken and named in the answer. The newest is
priced as the files that are written for it run. Those before it are priced as their published runs were: with
the traits and fitted constants of their era ([run tables](run-table.md)), and the settings of the recipes of
their time, so that `estimate` gives the seconds of `validate`. The run card tells what files cannot say of
that. `planner runtimes show NAME` has the measured runs behind a runtime, and `planner runtimes diff A B
--plan PLAN` what another release would change for a plan.
"""

OFFERED = {
    "versions": "releases whose files can be written",
    "default_zero": "`--zero` where none is given",
    "zero_stages": "`--zero`",
    "schedules": "`--schedule`",
    "cp_methods": "`--cp-method`",
    "recomputes": "`--recompute`",
    "offloads": "`--offload`",
    "precisions": "`--precision`",
    "methods": "`--method`",
    "optimizers": "`--optimizer`",
    "hybrid_sharding": "`--zero-shards` below dp · cp",
}
"""Fields of a runtime, and what each is called in the page."""


def words(value: object) -> str:
    """Return several names joined by commas, or one value."""
    return ", ".join(map(str, value)) if isinstance(value, tuple) else number(value)


def releases_table(name: str) -> str:
    """Return the releases of a runtime, newest first."""
    rows = [
        [
            f"`{name}@{one.name}`",
            ", ".join(one.containers),
            one.date,
            one.brings,
            one.files or "those of the newest",
        ]
        for one in releases()[name].releases
    ]
    return table(["release", "container", "date", "what it brings", "files"], rows)


def runtimes_page() -> str:
    """Return the page of runtimes."""
    found = load_family("planner.runtimes", Runtime)
    plain = Traits()
    parts = [RUNTIMES_HEAD]
    for name, runtime in found.items():
        spellings = ", ".join(f"`{alias}`" for alias in runtime.aliases)
        rows: list[list[object]] = [[title, words(getattr(runtime, key))] for key, title in OFFERED.items()]
        rows += [["other spellings", spellings]] if spellings else []
        head = f"\n## {name}\n\n{runtime.title}. Read in: {runtime.cite}."
        parts.append(f"{head}\n\n{table(['what', 'choices'], rows)}\n\n{releases_table(name)}\n")
    changed = [
        trait
        for trait in TRAITS
        if any(one.traits.value_of(trait) != plain.value_of(trait) for one in found.values())
    ]
    rows = [
        [f"`{trait}`", *(words(one.traits.value_of(trait)) for one in found.values())] for trait in changed
    ]
    parts.append(
        "\n## Behaviour\n\nTraits in which they differ, as `--set TRAIT=VALUE` takes them; what each means "
        f"`planner glossary TRAIT` says.\n\n{table(['trait', *found], rows)}\n"
    )
    return "".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    RUNTIMES_PAGE.write_text(runtimes_page(), encoding="utf-8")
