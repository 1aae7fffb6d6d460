"""Every entry of every table: cited, spelled once, described, and the same for one plan and for many."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cache
from itertools import product
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from planner.errors import InputError
from planner.formulas.pipeline import Pipe
from planner.registry import find
from planner.runtimes import runtimes
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
from planner.techniques.recompute.family import read_choice
from planner.techniques.recovery import RECOVERIES
from planner.techniques.rings import RINGS
from planner.techniques.rotary_chains import ROTARY_CHAINS
from planner.techniques.routers import ROUTERS
from planner.techniques.scaling_laws import SCALING_LAWS
from planner.techniques.schedules import SCHEDULES
from planner.techniques.settings import SETTINGS, Setting
from planner.techniques.sharding import SHARDINGS
from planner.techniques.states import STATE_METHODS
from planner.techniques.sync import SYNCS
from planner.techniques.tensor import TENSOR_LIBRARIES
from tests.helpers import ROOT

TABLES: dict[str, Mapping[str, Any]] = {
    "adapters": ADAPTER_LIBRARIES,
    "allocators": ALLOCATORS,
    "attention": ATTENTION_KERNELS,
    "attention_codes": ATTENTION_CODES,
    "dispatchers": DISPATCHERS,
    "checkpointing": CHECKPOINTING,
    "compress": COMPRESSIONS,
    "context": CONTEXT_METHODS,
    "experts": EXPERT_CODES,
    "feedback": FEEDBACKS,
    "graphs": GRAPHS,
    "layouts": TOKEN_LAYOUTS,
    "losses": LOSSES,
    "methods": METHODS,
    "norms": NORMS,
    "offload": OFFLOADS,
    "optimizer_steps": OPTIMIZER_STEPS,
    "optimizers": OPTIMIZERS,
    "pipelines": PIPELINE_CODES,
    "precision": PRECISIONS,
    "recompute": RECOMPUTES,
    "recovery": RECOVERIES,
    "rings": RINGS,
    "rotary_chains": ROTARY_CHAINS,
    "routers": ROUTERS,
    "scaling_laws": SCALING_LAWS,
    "schedules": SCHEDULES,
    "settings": SETTINGS,
    "sharding": SHARDINGS,
    "states": STATE_METHODS,
    "engines": ENGINES,
    "sync": SYNCS,
    "tensor": TENSOR_LIBRARIES,
    "runtimes": runtimes(),
}
ENTRIES = [
    pytest.param(entry, id=f"{family}-{name}")
    for family, table in TABLES.items()
    for name, entry in table.items()
]
SOURCE = re.compile(r"arXiv:\d{4}\.\d{4,5}|doi:10\.\d{4,}/\S+|https://\S+\.\S+|[0-9a-f]{7,}|\d+\.\d+")
"""A paper, an address, or a release or commit of public code."""

# The names that the contract of the command line fixes.
PROMISED = {
    "context": {"ring", "all-gather", "all-to-all"},
    "recompute": {"none", "selective", "full"},
    "schedules": {
        "gpipe",
        "1f1b",
        "interleaved-1f1b",
        "zb-h1",
        "zb-h2",
        "zb-1p",
        "zb-2p",
        "zb-v",
        "v-min",
        "v-half",
    }
    | {"v-zb", "breadth-first", "dualpipe", "dualpipe-v", "pipedream", "zeropp", "bitpipe", "2bp"},
    "precision": {"bf16", "fp16", "fp8", "fp8-delayed", "mxfp8", "nvfp4"},
    "optimizers": {"adamw", "adam8bit", "muon"},
    "methods": {"full", "lora", "qlora"},
    "compress": {"int8", "int4", "topk", "ternary", "layerwise"},
    "feedback": {"error-feedback", "econtrol"},
    "sync": {
        "ddp",
        "local-sgd",
        "diloco",
        "streaming",
        "eager",
        "diloco-x",
        "co2",
        "edit",
        "a-edit",
        "noloco",
    }
    | {"sparseloco", "des-loc", "qsr", "flexdemo", "swarm"},
    "runtimes": {"megatron-lm", "deepspeed", "torchtitan", "fsdp", "nanotron"},
}
ALIASES = {
    "context": {"p2p": "ring", "a2a": "all-to-all", "ulysses": "all-to-all"},
    "recompute": {"every-layer": "full"},
    "schedules": {
        "interleaved": "interleaved-1f1b",
        "Schedule1F1B": "1f1b",
        "Interleaved1F1B": "interleaved-1f1b",
    },
}


@pytest.mark.parametrize("entry", ENTRIES)
def test_it_says_where_it_is_described(entry: Any) -> None:
    assert SOURCE.search(entry.cite), entry.cite


@pytest.mark.parametrize("entry", ENTRIES)
def test_its_name_can_be_typed(entry: Any) -> None:
    pattern = r"[a-z0-9][a-z0-9_]*" if isinstance(entry, Setting) else r"[a-z0-9][a-z0-9-]*"
    assert re.fullmatch(pattern, entry.name)


@pytest.mark.parametrize("family", TABLES)
def test_no_spelling_means_two_things(family: str) -> None:
    spelled = [word.lower() for entry in TABLES[family].values() for word in (entry.name, *entry.aliases)]
    assert len(spelled) == len(set(spelled))


@pytest.mark.parametrize("family", TABLES)
def test_every_spelling_finds_its_entry_and_a_slip_is_told(family: str) -> None:
    for entry in TABLES[family].values():
        for word in (entry.name, *entry.aliases):
            assert find(TABLES[family], word.upper(), "--option") is entry
    word = next(iter(TABLES[family]))
    with pytest.raises(InputError, match=re.escape(word)):
        find(TABLES[family], f"{word}x", "--option")


@pytest.mark.parametrize("family", PROMISED)
def test_the_promised_names_are_there(family: str) -> None:
    assert PROMISED[family] <= set(TABLES[family])
    for alias, name in ALIASES.get(family, {}).items():
        assert find(TABLES[family], alias, "--option").name == name


@pytest.mark.parametrize("family", TABLES)
def test_a_table_cannot_be_changed(family: str) -> None:
    with pytest.raises(TypeError):
        TABLES[family]["new"] = None  # type: ignore[index]
    entry = next(iter(TABLES[family].values()))
    with pytest.raises(AttributeError):
        entry.name = "new"


DRAW = np.random.default_rng(7)
COLUMNS = {name: DRAW.integers(low, high, 60).astype(float) for name, low, high in (
    ("pp", 2, 9), ("vpp", 1, 5), ("microbatches", 8, 65), ("rank", 0, 2), ("cp", 1, 9), ("heads", 1, 65),
    ("kv_heads", 1, 9), ("tokens", 1, 9000), ("q_width", 1, 9000), ("kv_width", 1, 9000), ("inputs", 1, 9000),
    ("outputs", 1, 9000), ("rank_width", 1, 65), ("shards", 1, 65), ("head_ranks", 1, 5), ("near", 1, 9),
)}  # fmt: skip
SECONDS = {
    name: DRAW.uniform(0.5, 2.0, 60) for name in ("forward", "input_gradient", "weight_gradient", "hop")
}
DEGREES = ("pp", "vpp", "microbatches")
BUFFER = ("tokens", "q_width", "kv_width", "cp")
ARGUMENTS = {
    "bubble_seconds": (*DEGREES, *SECONDS),
    "span_bubble_seconds": (*DEGREES, *SECONDS),
    "in_flight_chunks": (*DEGREES, "rank"),
    "awaiting_weight_chunks": (*DEGREES, "rank"),
    "weight_versions": (*DEGREES, "rank"),
    "messages": DEGREES,
    "legal": DEGREES,
    "forward_elements": BUFFER,
    "backward_elements": BUFFER,
    "gathered_elements": BUFFER,
    "sent_share": ("cp",),
    "head_ranks": ("cp", "heads", "kv_heads", "near"),
    "adapter_params": ("inputs", "outputs", "rank_width"),
    "optimizer_shards": ("shards",),
    "gradient_shards": ("shards",),
    "parameter_shards": ("shards",),
}


def numeric_functions() -> list[Any]:
    found = []
    for family, table in TABLES.items():
        for name, entry in table.items():
            for function in ARGUMENTS:
                if callable(getattr(entry, function, None)):
                    found.append(pytest.param(family, entry, function, id=f"{family}-{name}-{function}"))
    return found


@pytest.mark.parametrize(("family", "entry", "function"), numeric_functions())
def test_a_column_has_the_bits_of_its_scalars(family: str, entry: Any, function: str) -> None:
    own = {"legal": ("cp", "heads", "kv_heads", "head_ranks")} if family == "context" else {}
    names = own.get(function) or ARGUMENTS[function]
    columns = [(COLUMNS | SECONDS)[name] for name in names]
    said: Callable[..., Any] = getattr(entry, function)
    call = (lambda *symbols: said(Pipe(*symbols))) if function.endswith("bubble_seconds") else said
    together = np.broadcast_to(np.asarray(call(*columns)), (60,))
    assert together.tolist() == [call(*(float(column[row]) for column in columns)) for row in range(60)]


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule_says_why_exactly_where_it_cannot_run(name: str) -> None:
    schedule = SCHEDULES[name]
    for pp, vpp, microbatches in product((1, 2, 3, 4, 8), (1, 2, 3), (1, 2, 4, 6, 8, 16)):
        assert bool(schedule.legal(pp, vpp, microbatches)) == (not schedule.supports(pp, vpp, microbatches))


@pytest.mark.parametrize("name", runtimes())
def test_a_runtime_offers_what_there_is(name: str) -> None:
    runtime = runtimes()[name]
    for family, offered in (
        ("schedules", runtime.schedules),
        ("context", runtime.cp_methods),
        ("offload", runtime.offloads),
        ("methods", runtime.methods),
        ("precision", runtime.precisions),
        ("sharding", tuple(f"zero{stage}" for stage in runtime.zero_stages)),
    ):
        for word in offered:
            find(TABLES[family], word, family)
    for word in runtime.recomputes:
        read_choice(dict(RECOMPUTES), word)
    assert runtime.default_zero in runtime.zero_stages


@pytest.mark.parametrize("entry", ENTRIES)
def test_its_record_describes_every_field(entry: Any) -> None:
    assert [field.name for field in fields(entry) if field.name not in described(type(entry))] == []


@cache
def described(kind: type) -> set[str]:
    """Return the names in the text of a class, and those of its fields that a text stands beneath."""
    found = set(re.findall(r"\w+", kind.__doc__ or ""))
    above: list[str] = []
    (tree,) = ast.parse(inspect.getsource(kind)).body
    assert isinstance(tree, ast.ClassDef)
    for line in tree.body:
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
            above.append(line.target.id)
        elif isinstance(line, ast.Expr):
            found.update(above)
            above = []
    return found


def page_maker(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_of_techniques_is_current() -> None:
    maker = page_maker("make_techniques")
    known = maker.PAGE.read_text(encoding="utf-8")
    assert known == maker.page(), "run `python docs/make_techniques.py` and read the diff"


def test_the_equations_of_the_pages_are_those_of_the_code() -> None:
    maker = page_maker("make_equations")
    assert len(maker.pages()) >= 4
    for page in maker.pages():
        known = page.read_text(encoding="utf-8")
        assert known == maker.rewritten(known), (
            f"{page.name}: run `python docs/make_equations.py` and read the diff"
        )
