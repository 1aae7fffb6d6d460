"""What is told of a model that Megatron-Bridge builds of layers of its own, and asked of its record."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from planner.inputs.model import Attention, ModelSpec
from planner.inputs.variants import Variant
from planner.runtimes.megatron_bridge.code import Section


def _as_it_is(model: ModelSpec) -> ModelSpec:
    return model


class OwnLayers(NamedTuple):
    """One provider."""

    module: str
    provider: str
    """Module and class."""
    builds: Callable[[ModelSpec], bool]
    """Whether it builds what Megatron-core lacks of a model."""
    numbers: tuple[str, ...]
    """Fields of `Numerics` that it has a place for, beside Megatron-core's."""
    fields: Callable[[ModelSpec], Section]
    """Fields of its own for a model."""
    whole_sequence: bool = False
    """Whether its attention knows no context parallelism."""
    whole_groups: bool = False
    """Whether each tensor-parallel rank needs a key/value head of its own."""
    traits: Mapping[str, Any] = MappingProxyType({})
    """What its layers do that Megatron-core's do not, by flat name."""
    methods: tuple[str, ...] = ("full", "lora")
    """How its layers are trained: with adapters where Megatron-Bridge has a recipe that does."""
    spec: tuple[str, str] | None = None
    """Of the general provider: the module and the function that describes its layers."""
    variants: tuple[Variant, ...] = ()
    """Variants of the model that it builds, which Megatron-core does not."""
    built: Callable[[ModelSpec], ModelSpec] = _as_it_is
    """Returns a model as it builds it, where it keeps weights that the model has not."""
    plain: tuple[str, ...] = ()
    """Flat names of traits of Megatron-core that its layers do not run with."""

    @property
    def imports(self) -> str:
        """The line that imports what describes its layers; nothing where its class does."""
        if self.spec is None:
            return ""
        module, function = self.spec
        return f"from megatron.bridge.models.{module} import {function}\n"


def mixers_of(model: ModelSpec) -> list[Attention]:
    """Return the attention of each layer; nothing where one has another mixer."""
    found = [model.blocks[name].mixer for name in model.layers]
    plain = [mixer for mixer in found if isinstance(mixer, Attention)]
    return plain if len(plain) == len(found) else []


def norms_of(model: ModelSpec) -> set[int]:
    """Return how many norms its layers have."""
    return {block.norms for block in model.blocks.values()}


def base_of(value: float | None) -> int | float | None:
    """Return a base of rotary positions as files have it: whole where it is."""
    return int(value) if value is not None and value.is_integer() else value


def window_of(model: ModelSpec) -> int:
    """Return the tokens that its layers with a window see."""
    return next(mixer.window for mixer in mixers_of(model) if mixer.window is not None)
