"""Every function of `planner.formulas`, with the units of its docstring and numbers that it accepts."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

import planner.formulas as package
from planner.formulas.attention import AttentionCurve
from planner.formulas.collective_curves import CollectiveCurve
from planner.formulas.collectives import Tier
from planner.formulas.experts import ExpertCurve
from planner.formulas.gemm import GemmCurve
from planner.formulas.pipeline import Pipe
from planner.formulas.unfused_attention import UnfusedAttention

RECORDS: Final = {
    kind.__name__: kind
    for kind in (AttentionCurve, CollectiveCurve, ExpertCurve, GemmCurve, Pipe, Tier, UnfusedAttention)
}

NOT_RUN: Final = {
    **dict.fromkeys(("expected_touched", "left_share"), "raises a share to the power of a count"),
    "generation_seconds": "takes a function, and adds what it returns",
    "corrected": "multiplies seconds by a share of no unit; its callers are run",
    "tile_costs": "takes a list of tiles when a curve is made",
    **dict.fromkeys(
        ("dion_flops", "dion_kept", "dion_exchanged", "shampoo_side", "shampoo_kept", "shampoo_flops"),
        "rows and columns are elements, and so is their product",
    ),
    "estimated_zero2_bytes": "the 2 bytes of each weight are those of the code",
    "estimated_zero3_bytes": "takes the same, and 4 bytes of each weight of a layer",
    "estimated_host_bytes": "takes bytes of each weight, as the glossary has them",
    "latent_attention_params": "a rank is rows of one matrix and columns of the next, so no unit fits both",
    "curve_between": "takes two curves and returns one, whose constants have the units of theirs",
    "started_ring_seconds": "holds the 512 MiB of a tier's published rate without their unit",
    "all_reduce_seconds": "two passes of the last",
    "spread": "returns three counts of ranks; its callers are run",
    "scaling_loss": "a power of a count is no unit: the constants of a fit take it up",
    "optimal_params": "takes the same constants",
    "optimal_params_at_ratio": "the 6 FLOP of each parameter and token are those of the code",
    "best_interval_seconds": "takes Lambert's function from SciPy, which knows no quantities",
    "expected_largest": "takes a sample, whose unit is that of its result",
    "two_level_slowdown": "takes tuples of times; failure_slowdown is run",
    "recut_layers": "returns whole numbers of layers, dealt one by one",
    "mesh_head_ranks": "takes common divisors of whole numbers, which are no quantities",
    **dict.fromkeys(
        ("hybrid_buffer_bytes", "deep_buffer_bytes", "user_buffer_bytes"),
        "the bytes of an element and of what is listed are the code's",
    ),
    "distinct_domains": "a power whose exponent is a count, which the units' arithmetic has no rule for",
    "shortcut_window": "takes a word: where routed experts read",
    "peak_picks": "takes a count of the model and a mean of it, which are no columns",
    "between": "interpolates constants of any unit; its callers are run",
}
"""Functions that cannot be fed quantities, and why."""

RANGES: Final = {
    "pp": (2, 16),
    "vpp": (1, 6),
    "ranks": (1, 64),
    "members": (1, 8),
    "stride": (1, 16),
    "workers": (64, 128),
    "waited": (1, 64),
    "domain": (8, 64),
    "microbatches": (16, 64),
    "per_round": (1, 16),
    "lost": (0, 0.9),
    "exposed_share": (0, 1),
    "cured": (0, 0.9),
    "new_step": (1, 2),
    "efficiency": (0.1, 1),
    "seq_q": (1024, 2048),
    "seq_kv": (2048, 4096),
    "window": (512, 8192),
    "q_rank": (0, 2),
    "matrices": (2, 3),
    "experts": (16, 64),
    "topk": (1, 8),
    "token": (1, 64),
    "mean_answer": (64, 512),
    "longest_answer": (512, 2048),
}
"""Numbers that a parameter may take, both ends included."""

PLAIN: Final = (1, 64)
FRACTIONS: Final = {"lost", "exposed_share", "efficiency", "cured"}

CONSTANTS: Final = {
    "multiprocessors": 100.0,
    "wave_weight": 0.5,
    "bandwidth": 2e12,
    "pair_bandwidth": 1e12,
    "rate": 1e15,
    "backward_rate": 5e14,
    "misaligned_rate": 1e14,
    "launch": 3e-6,
    "latency": 5e-6,
    "forward_share": 0.4,
    "activation_bandwidth": 1e12,
    "pp": 9.0,
    "m": 40.0,
}
"""Values of the fields of records; 2 where none is given."""


@dataclass(frozen=True)
class Formula:
    """One public function of the formulas.

    ``parameters`` has annotation and unit of each parameter; ``unit`` is that of the result.
    """

    name: str
    function: Callable[..., Any]
    parameters: Mapping[str, tuple[str, str | None]]
    unit: str | None


def described(docstring: str, section: str) -> dict[str, str | None]:
    """Return the last unit in brackets of each entry in a numpydoc section."""
    found = re.search(rf"^{section}\n-+\n(.*?)(?=\n\n\S[^\n]*\n---|\Z)", docstring, re.MULTILINE | re.DOTALL)
    units: dict[str, str | None] = {}
    names: list[str] = []
    for line in (found[1] if found else "").splitlines():
        if line and not line.startswith(" "):
            names = [name.strip() for name in line.partition(" :")[0].split(",")]
            units |= dict.fromkeys(names)
        elif names:
            brackets = re.findall(r"\[([^\[\]]+)\]", line)
            units |= dict.fromkeys(names, brackets[-1]) if brackets else {}
    return units


def result_unit(docstring: str) -> str | None:
    """Return the unit of a result: of its section, or where it has none, at the end of the summary."""
    units = [unit for unit in described(docstring, "Returns").values() if unit]
    return (units or re.findall(r"\[([^\[\]]+)\]\Z", docstring.partition("\n\n")[0]) or [None])[0]


def formulas() -> Iterator[Formula]:
    """Yield every public function of the package, in the order of its modules."""
    for info in pkgutil.iter_modules(package.__path__):
        module = importlib.import_module(f"{package.__name__}.{info.name}")
        for name, function in inspect.getmembers(module, inspect.isfunction):
            if function.__module__ != module.__name__ or name.startswith("_"):
                continue
            documented = inspect.getdoc(function) or ""
            units = described(documented, "Parameters")
            parameters = {
                parameter: (str(value.annotation), units.get(parameter))
                for parameter, value in inspect.signature(function).parameters.items()
            }
            yield Formula(f"{info.name}.{name}", function, parameters, result_unit(documented))


def runnable() -> list[Formula]:
    """Return the functions that can be fed quantities."""
    return [one for one in formulas() if one.name.partition(".")[2] not in NOT_RUN]


def field_units(kind: type) -> dict[str, str | None]:
    """Return the units that the docstring of a record gives its fields."""
    return described(inspect.cleandoc(kind.__doc__ or ""), "Parameters")


Wrap = Callable[[float, str, str], Any]
"""Function of (value, record and field, unit)."""


def record(kind: type, wrap: Wrap) -> Any:
    """Return a record whose numbers are made by ``wrap``."""
    values: dict[str, Any] = {}
    units = field_units(kind)
    for field in fields(kind):
        if field.default is None:
            continue
        where, unit = f"{kind.__name__}.{field.name}", units.get(field.name) or "-"
        number = CONSTANTS.get(field.name, 2.0)
        if field.type in ("str", str):
            values[field.name] = field.name
        elif field.type in ("bool", bool):
            values[field.name] = False
        elif field.name == "tiles":
            values[field.name] = (
                (wrap(128.0, where, unit), wrap(256.0, where, unit), wrap(33e3, where, "element^2")),
            )
        elif field.name == "ranks":
            values[field.name] = (wrap(2.0, where, unit), wrap(8.0, where, unit))
        elif "uple" in str(field.type) or "Range" in str(field.type):
            values[field.name] = (wrap(number, where, unit), wrap(2 * number, where, unit))
        else:
            values[field.name] = wrap(number, where, unit)
    return kind(**values)
