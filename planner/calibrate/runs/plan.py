"""The plan of a run: stated degrees, and documented rules for those left blank."""

from __future__ import annotations

import math
import re
from functools import lru_cache
from itertools import pairwise
from typing import Final

from planner.calibrate.eras import Era
from planner.calibrate.runs.table import Run
from planner.errors import InputError
from planner.inputs.model import ModelSpec
from planner.plan import Plan
from planner.runtimes.megatron_lm.layout import layout_layers
from planner.runtimes.nanotron.rules import own_split
from planner.techniques.recompute import RECOMPUTES
from planner.techniques.recompute.family import read_choice
from planner.techniques.schedules import plain_schedule

SCHEDULES: Final = {"interleaved": "interleaved-1f1b"}
UNACCUMULATED: Final = 16
"""Sequences up to which a rank without pipeline stages is taken to run its batch in one pass. [-]"""
PASS_TOKENS: Final = 16_384
"""Tokens of a rank's pass beyond that: of 4,096 to 32,768 the nearest to what the public runs state. [-]"""

ROUNDING: Final = 0.02
"""Share by which printed speeds are rounded. [-]"""
SEQUENCE_STEP: Final = 128
"""Tokens that a sequence is a multiple of. [-]"""

COUNTED: Final = re.compile(r"(counts|includes one full forward) recompute(?! when)")
"""Words of a FLOP convention that tell that the run recomputed."""

_SHARED_BY: Final = re.compile(r"optimizer states sharded(?:: zero1 over| inside) (\d+) GPUs")
"""Words of the notes that tell among how many ranks states are spread."""

EVERY_LAYER: Final = "activations:all"
"""Offload of every layer's activations, in a row whose model tells how many there are."""
_HOSTED_LAYERS: Final = re.compile(r"activations?[:_](?:offload_)?(\d+)[-_]layers")
_HOSTED_OPTIMIZER: Final = re.compile(
    r"(?:cpu|optimizer)[-_](?:offload[-_](\d{1,3})pct(?:_overlap)?|adam|offload)"
)
_HOSTED_STATES: Final = re.compile(r"zero[-_ ]?(offload|infinity)")
_WITHOUT_BF16: Final = re.compile(r"v100|p100|t4|rtx-20")
_SHARDED: Final = re.compile(r"fsdp|fully.?shard|\bddp\b|data.?parallel")
"""Words of a framework that name what it does with its ranks."""
_STAGE: Final = re.compile(r"(?:zero|stage)[-_ ]?(?:stage[-_ ]?)?([0-3])\b")


def expert_defaults(run: Run, era: Era, domain: int) -> dict[str, object]:
    """Return the blank expert parallelism of a run whose other degrees are known.

    Experts are spread over the fast links as far as they divide; FSDP shards them instead.
    """
    spreads = bool(run.experts) and era.runtime != "fsdp"
    mesh = (run.tp or 1) * (run.cp or 1) * (run.dp or 1) // (run.etp or 1)
    reach = 2 ** (max(1, domain).bit_length() - 1)
    return _blank(run, {"ep": math.gcd(run.experts or 1, mesh, reach) if spreads else 1})


def degree_defaults(run: Run, era: Era) -> dict[str, object]:
    """Return values for blank degrees: 1 of what the program lacks, then what is left of the GPUs.

    Tensor parallel is taken in the node first.
    """
    single = _blank(run, dict.fromkeys(era.blanks.lacks, 1))
    run = run.with_values(single)
    known = {name: getattr(run, name) for name in ("tp", "pp", "dp")}
    gpus, cp = run.num_gpus, run.cp or left_for_context(run)
    chosen: dict[str, object] = {"cp": cp, "etp": 1}
    if gpus is None and all(known.values()):
        gpus = chosen["num_gpus"] = math.prod(known.values()) * cp
    blank = [name for name, value in known.items() if value is None]
    if gpus == 1:
        chosen |= dict.fromkeys(blank, 1)
    elif gpus and blank:
        stated = math.prod(value for value in known.values() if value) * cp
        if gpus % stated:
            return single | _blank(run, chosen)
        left = gpus // stated
        if blank == ["tp", "pp"]:
            tensor = math.gcd(left, run.gpus_per_node or 8)
            chosen |= {"tp": tensor, "pp": left // tensor}
        elif len(blank) == 1:
            chosen[blank[0]] = left
        elif only_data_parallel(run):
            chosen |= {**dict.fromkeys(blank, 1), "dp": left}
    return single | _blank(run, chosen)


def only_data_parallel(run: Run) -> bool:
    """Whether a run with blank degrees says that it shards its states over all ranks.

    A program that can do more and does not say so is not taken to: what it did is not known.
    """
    stage = _STAGE.search(run.framework.lower())
    stated = run.zero or (stage[1] if stage else "")
    return stated in ("2", "3") or stated.startswith("hsdp") or bool(_SHARDED.search(run.framework.lower()))


def left_for_context(run: Run) -> int:
    """Return the context parallelism of a run that names its method and all other degrees, else 1."""
    others = (run.tp or 0) * (run.pp or 0) * (run.dp or 0)
    if not run.cp_method or not others or run.num_gpus is None or run.num_gpus % others:
        return 1
    return run.num_gpus // others


def speed_defaults(run: Run) -> dict[str, object]:
    """Return a blank global batch or sequence length that a printed step time and tokens per second tell.

    The batch is the nearest multiple of micro-batch times dp, the sequence the nearest multiple of 128, where
    that is within 2% of what the speeds mean.
    """
    if not (run.step_time_s and run.tokens_per_s_per_gpu and run.num_gpus):
        return {}
    tokens = run.step_time_s * run.tokens_per_s_per_gpu * run.num_gpus
    if run.global_batch is None and run.seq_len:
        return _nearest("global_batch", tokens / run.seq_len, (run.micro_batch or 1) * (run.dp or 1))
    if run.seq_len is None and run.global_batch:
        return _nearest("seq_len", tokens / run.global_batch, SEQUENCE_STEP)
    return {}


def _nearest(name: str, told: float, step: int) -> dict[str, object]:
    value = round(told / step) * step
    return {name: value} if value and abs(told / value - 1) <= ROUNDING else {}


def batch_defaults(run: Run) -> dict[str, object]:
    """Return values for a blank micro-batch or global batch, once the degrees are known.

    Where both are blank nothing tells what a step did: they stay so. A micro-batch larger than a rank's whole
    share of the batch is that share.
    """
    chosen: dict[str, object] = {}
    dp, pp = run.dp or 1, run.pp or 1
    if run.global_batch and run.micro_batch is None:
        share = run.global_batch // dp
        whole = run.global_batch % dp == 0 and 1 <= share <= UNACCUMULATED
        fits = max(1, PASS_TOKENS * (run.cp or 1) // (run.seq_len or PASS_TOKENS))
        chosen["micro_batch"] = 1 if pp > 1 else share if whole else largest_divisor(share, fits)
    elif run.micro_batch and run.global_batch is None and pp == 1:
        chosen["global_batch"] = run.micro_batch * dp
    elif run.micro_batch and run.global_batch and run.micro_batch * dp > run.global_batch >= dp and pp == 1:
        return {"micro_batch": run.global_batch // dp}
    return _blank(run, chosen)


def largest_divisor(whole: int, limit: int) -> int:
    """Return the largest divisor of ``whole`` that is not above ``limit``; 1 where ``whole`` is none.

    Examples
    --------
    >>> largest_divisor(48, 10), largest_divisor(7, 6)
    (8, 1)
    """
    return next((part for part in range(min(whole, limit), 1, -1) if whole % part == 0), 1)


def stage_defaults(run: Run, era: Era) -> dict[str, object]:
    """Return the virtual stages and the schedule of a run that leaves them blank."""
    pp, layers = run.pp or 1, run.num_layers or 1
    named = run.schedule in ("interleaved", "interleaved-1f1b")
    vpp = run.vpp
    if vpp is None:
        stated = named and era.blanks.single_layers != "never"
        usual = not run.schedule and era.blanks.single_layers == "usual"
        if pp > 1 and (stated or usual):
            vpp = -(-layers // pp)
        else:
            vpp = 2 if run.schedule.startswith("interleaved") and pp > 1 else 1
    return _blank(run, {"vpp": vpp, "schedule": plain_schedule(vpp)})


def habit_defaults(run: Run, era: Era) -> dict[str, object]:
    """Return what the era's users leave at default: precision, sharding, recompute, sequence parallelism."""
    words = run.framework.lower()
    stage, hosted = _STAGE.search(words), _HOSTED_STATES.search(words)
    usual = (era.blanks.pipeline_zero if (run.pp or 1) > 1 else "") or era.blanks.zero
    chosen: dict[str, object] = {
        "precision": "fp16" if _WITHOUT_BF16.match(run.gpu) else era.blanks.precision,
        "zero": stage[1] if stage else "2" if hosted and hosted[1] == "offload" else usual,
        "recompute": "full" if COUNTED.search(run.flops_convention.lower()) else era.blanks.recompute,
        "seq_parallel": int(_usually_sequential(run, era)),
        "offload": "optimizer" if hosted else "none",
        "cp_method": "ring",
        "memory_kind": (_stated_counter(run) or era.blanks.counter) if run.peak_mem_gib else "",
    }
    return _blank(run, chosen)


def _stated_counter(run: Run) -> str:
    """Return the counter of memory that the notes of a run name."""
    notes = run.notes.lower()
    if "max allocated bytes" not in notes:
        return ""
    return "last-rank" if "(last) rank" in notes else "allocated"


def _usually_sequential(run: Run, era: Era) -> bool:
    """Whether a run that does not say so has sequence parallelism."""
    where = era.blanks.sequence_in == "all" or (
        (run.pp or 1) > 1 and (run.num_gpus or 1) > (run.gpus_per_node or run.num_gpus or 1)
    )
    return era.blanks.sequence_parallel and where and (run.tp or 1) > 1


def _blank(run: Run, chosen: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in chosen.items() if getattr(run, name) in (None, "")}


def recompute_spellings(text: str, layers_per_stage: int, selective: str) -> tuple[str, ...]:
    """Return a run table's recompute as the planner may spell it, the closest first.

    A module that the planner does not recompute by itself stands for the part of the layer that holds it.

    Examples
    --------
    >>> recompute_spellings("block:5", 8, "selective"), recompute_spellings("selective:layer", 8, "selective")
    (('full:5',), ('full:4',))
    """
    head, _, rest = text.partition(":")
    if head in ("block", "full") and rest:
        return (f"full:{rest}",)
    if text == "selective:layer":
        return (f"full:{max(1, layers_per_stage // 2)}",)
    if text in ("selective", "selective:per-op"):
        return tuple(dict.fromkeys((selective if text == "selective" else text, "selective")))
    coarse = rest.replace("layernorm", "norm").replace("mla_up_proj", "qkv")
    parts = dict.fromkeys((rest.replace("layernorm", "norm"), coarse))
    name = {"every-layer": "full"}.get(head, head)
    return tuple(f"{name}:{modules}" if modules else name for modules in parts)


@lru_cache(maxsize=1024)
def recompute_name(text: str, layers_per_stage: int, selective: str = "selective") -> str:
    """Return the first spelling of a run table's recompute that names a technique, else the last."""
    spellings = recompute_spellings(text, layers_per_stage, selective)
    for spelling in spellings:
        try:
            read_choice(dict(RECOMPUTES), spelling)
        except InputError:
            continue
        return spelling
    return spellings[-1]


def offload_name(text: str, layers: int = 0) -> str:
    """Return a run table's offload as the planner spells it; those of all layers are of ``layers``.

    Examples
    --------
    >>> offload_name("activations:all", 46)
    'activations:46'
    >>> offload_name("activations:20-layers"), offload_name("optimizer_offload_100pct"), offload_name("None")
    ('activations:20', 'optimizer', 'none')
    >>> offload_name("optimizer_offload_60pct")
    'optimizer:60%'
    """
    if layers and text.lower() == EVERY_LAYER:
        return f"activations:{layers}"
    named = _HOSTED_OPTIMIZER.sub(r"optimizer:\1%", _HOSTED_LAYERS.sub(r"activations:\1", text.lower()))
    return named.replace("optimizer:100%", "optimizer").replace("optimizer:%", "optimizer")


def stated_layers(notes: str, stages: int) -> tuple[int, ...] | None:
    """Return the layers of each virtual stage that a Megatron pipeline layout in the notes states.

    Examples
    --------
    >>> stated_layers("pp_layout=Et*2|(t*3|)*2tmL overlap=True", 4)
    (2, 3, 3, 1)
    """
    stated = re.search(r"pp_layout=([Etm|L*()\d]+)", notes)
    layers = () if stated is None else tuple(layout_layers(stated[1]))
    return layers if len(layers) == stages else None


def even_layers(layers: int, stages: int) -> tuple[int, ...] | None:
    """Return the layers of each virtual stage where they do not divide evenly, as Megatron cuts them.

    Embedding and loss count as a layer each where that divides; else the first stages are filled by ceiling.

    Examples
    --------
    >>> even_layers(22, 8), even_layers(61, 16)[-2:], even_layers(24, 8)
    ((2, 3, 3, 3, 3, 3, 3, 2), (4, 1), None)
    """
    if layers % stages == 0:
        return None
    if (layers + 2) % stages == 0:
        each = (layers + 2) // stages
        return (each - 1, *[each] * (stages - 2), each - 1)
    each = -(-layers // stages)
    return tuple(max(0, min(each, layers - each * stage)) for stage in range(stages))


def weighed_layers(layers: int, stages: int, weight: float) -> tuple[int, ...] | None:
    """Return the layers of each stage when embedding and head weigh as ``weight`` layers each.

    Examples
    --------
    >>> weighed_layers(40, 4, 2.07), weighed_layers(40, 2, 2.07)
    ((9, 11, 11, 9), None)
    """
    share = (layers + 2 * weight) / stages
    ends = [0, *(round(stage * share - weight) for stage in range(1, stages)), layers]
    cut = tuple(end - start for start, end in pairwise(ends))
    return None if len(set(cut)) == 1 or min(cut) < 1 else cut


def stage_layers(run: Run, model: ModelSpec, era: Era) -> tuple[int, ...] | None:
    """Return the layers of each virtual stage: as stated, as the era cuts them, or None for evenly."""
    stages = (run.pp or 1) * (run.vpp or 1)
    if stages == 1:
        return None
    if (stated := stated_layers(run.notes, stages)) is not None:
        return stated
    if era.stage_cut == "shares":
        return own_split(model, stages, at_share=True)
    if era.stage_cut == "parameters":
        weight = model.vocab * model.hidden / model.block_params(model.layers[0])
        return weighed_layers(model.num_layers, stages, weight)
    return even_layers(model.num_layers, stages)


def sharding(run: Run, ranks: float) -> tuple[int, float]:
    """Return the ZeRO stage of a run and the ranks over which it shards, of ``ranks`` that share weights.

    Examples
    --------
    >>> row = Run(line=2, id="x", source="s", zero="1", notes="optimizer states sharded: zero1 over 8 GPUs")
    >>> sharding(row, 64.0), sharding(row.with_values({"zero": "0"}), 64.0)
    ((1, 8.0), (0, 1.0))
    """
    hybrid = run.zero.partition(":")[2]
    if hybrid:
        return 3, float(hybrid)
    if run.zero == "0":
        return 0, 1.0
    stated = _SHARED_BY.search(run.notes)
    return int(run.zero), min(float(stated[1]), ranks) if stated else ranks


def run_plan(run: Run, model: ModelSpec, era: Era) -> Plan:
    """Return the plan of a run whose blanks are filled."""
    tp, pp, cp, dp = (float(getattr(run, name)) for name in ("tp", "pp", "cp", "dp"))
    vpp = float(run.vpp or 1)
    zero, shards = sharding(run, dp * cp)
    schedule = SCHEDULES.get(run.schedule, run.schedule)
    return Plan(
        tp=tp,
        pp=pp,
        vpp=vpp,
        cp=cp,
        ep=float(run.ep or 1),
        etp=float(run.etp or 1),
        dp=dp,
        zero_shards=shards,
        micro_batch=float(run.micro_batch or 1),
        num_microbatches=(run.global_batch or 1) / ((run.micro_batch or 1) * dp),
        zero=zero,
        recompute=recompute_name(run.recompute, int(-(-model.num_layers // pp)), era.selective),
        sequence_parallel=bool(run.seq_parallel) and tp > 1,
        cp_method=run.cp_method,
        schedule=schedule if pp > 1 else "1f1b",
        offload=offload_name(run.offload, int(-(-model.num_layers // pp))),
        stage_layers=stage_layers(run, model, era),
    )
