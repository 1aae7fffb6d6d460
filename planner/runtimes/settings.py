"""Which traits the launch files of a runtime can set, and what becomes of the others that a user changed."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from planner.runtimes.traits import TRAITS, Traits

Value = float | bool | str
Changes = Mapping[str, Value]
"""Traits that differ from those of the runtime as it is, by name."""

Settings = Mapping[str, tuple[Value, ...]]
"""The values of a trait that launch files can ask for, beside the runtime's own."""

ANY: Final = "any"
"""Stands in `Settings` for whatever number the trait can have."""

NO_CHANGES: Final[Changes] = MappingProxyType({})

CHOICES: Final = frozenset(
    {
        "adapter_all_to_all", "adapter_dropout", "adapter_gathers_input", "adapter_regathers_input",
        "attention", "cached_transposes", "compiled", "context_by_length",
        "dispatcher", "dropout", "float8_scales", "fp8_activation_input", "fp8_attention",
        "fused_activation", "fused_norm", "fused_rope", "fused_weight_gradient", "gradient_dtype",
        "graphed", "host_checkpoints", "launch_blocking", "loss", "loss_chunks", "low_bit_head",
        "low_bit_weights", "mlp_tiles", "operator_fuser", "overlaps_experts", "overlaps_shared_expert",
        "parameter_dtype", "precision_aware", "quantised_gathers", "quantised_reductions", "reduce_dtype",
        "secondary_shards", "selective", "shard_levels", "stages_inside", "static_experts",
        "vocab_parallel_loss", "whole_masters",
    }
)  # fmt: skip
"""Traits that say which code runs; the others are what is known of its speed and memory."""


BRINGING: Final = tuple(name for name, trait in TRAITS.items() if trait.brings)
"""Traits whose words bring the values of others."""


def changed(traits: Traits, plain: Traits) -> Changes:
    """Return the traits that differ from the plain ones, and from what another kind brings."""
    kinds = {name: word for name in BRINGING if (word := traits.value_of(name)) != plain.value_of(name)}
    own = (plain.with_values(**kinds) if kinds else plain).flat()
    return kinds | {name: value for name, value in traits.flat().items() if value != own[name]}


def heard(changes: Changes, settings: Settings) -> Changes:
    """Return the changes that a setting of the runtime brings about, value for value."""
    return {name: value for name, value in changes.items() if _heard(name, value, settings)}


def unheard(changes: Changes, settings: Settings, plain: Traits) -> list[str]:
    """Return why files cannot start what was priced: choices that no setting of the runtime makes."""
    own = plain.flat()
    return [
        f"trait {name}: {word(value)}; needs {_either(own[name], settings.get(name, ()))}; "
        f"nearest: --set {name}={word(own[name])}"
        for name, value in changes.items()
        if name in CHOICES and not _heard(name, value, settings)
    ]


def assumed(changes: Changes, settings: Settings) -> tuple[str, ...]:
    """Return for the run card the changes that were priced, and that no setting of the runtime makes."""
    return tuple(
        f"The price assumes {name} {word(value)}, which no setting in these files brings about."
        for name, value in changes.items()
        if name not in CHOICES and not _heard(name, value, settings)
    )


def _heard(name: str, value: Value, settings: Settings) -> bool:
    known = settings.get(name, ())
    return value in known or ANY in known


def word(value: Value) -> str:
    """Return a trait's value as users write it: a number with six digits where these are all of it.

    Examples
    --------
    >>> word(2e8), word(12345678.0), word(True)
    ('2e+08', '12345678.0', 'true')
    """
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, float):
        return value
    return short if float(short := f"{value:g}") == value else repr(value)


def _either(own: Value, others: tuple[Value, ...]) -> str:
    known = ", ".join(map(word, dict.fromkeys((own, *others))))
    return f"{known}, since the files have no other setting"
