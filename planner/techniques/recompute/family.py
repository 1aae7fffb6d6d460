"""Which activations are thrown away after forward and rebuilt before backward."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from planner.dataclasses import dataclass
from planner.errors import InputError, Problem, nearest

MODULES: Final = (
    "norm", "qkv", "mla_up_proj", "core_attn", "attn_out",
    "mlp", "moe_act", "router", "moe", "shared_experts",
)  # fmt: skip
"""Names of the parts of a block that can be recomputed by themselves, as Megatron spells them."""


@dataclass(frozen=True)
class RecomputeChoice:
    """A technique with its argument, ready to price."""

    whole_layer: bool
    """Whether only the input of a layer is kept."""
    modules: frozenset[str]
    """Parts whose forward runs again, where not the whole layer."""
    layers: float
    """Layers of each stage to which it applies; infinite for all. [-]"""
    parts: float = 1.0
    """Parts of a sequence in which a layer runs again and backward, one after another. [-]"""


@dataclass(frozen=True)
class Recompute:
    """One way to recompute."""

    name: str
    """As on the command line, before the colon."""
    cite: str
    """Where it is described."""
    choice: Callable[[str], RecomputeChoice]
    """Makes the `RecomputeChoice` from the argument after the colon, empty where there is none; raises
    ValueError with what is accepted."""
    aliases: tuple[str, ...] = ()
    """Other names."""


def module_set(argument: str) -> frozenset[str]:
    """Return the modules named by ``core_attn+mlp``."""
    modules = frozenset(argument.split("+"))
    unknown = sorted(modules - set(MODULES))
    if unknown:
        hint = nearest(unknown[0], MODULES)
        raise ValueError(
            f"modules joined by +, out of {', '.join(MODULES)}" + (f" ({hint}?)" if hint else "")
        )
    return modules


def read_choice(table: Mapping[str, Recompute], text: str, where: str = "--recompute") -> RecomputeChoice:
    """Read ``none``, ``selective``, ``selective:mlp+norm``, ``full`` or ``full:4``.

    Raises
    ------
    InputError
        If the name or its argument is unknown.
    """
    name, _, argument = text.partition(":")
    entry = table.get(name)
    if entry is None:
        spellings = {spelling: one for one in table.values() for spelling in (*one.aliases, one.name)}
        if name not in spellings:
            near = nearest(name, spellings)
            raise InputError(Problem(where, repr(text), f"one of {', '.join(table)}", near))
        entry = spellings[name]
    try:
        return entry.choice(argument)
    except ValueError as error:
        raise InputError(Problem(where, repr(text), str(error))) from None
