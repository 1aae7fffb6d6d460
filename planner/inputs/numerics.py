"""What of a model changes its function and not its shape: positions, norms, scales, router, initialiser.

Nothing here but a bound on logits enters a price. A field that is None is not known, and whoever writes files
says so.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from planner.inputs.record import Flag, Positive, Record


def _number(raw: Any) -> Any:
    if isinstance(raw, bool):
        raise ValueError("a number")
    return raw


Value = Annotated[float, Field(allow_inf_nan=False, ge=0, le=1e15), BeforeValidator(_number)]
Above = Annotated[float, Field(allow_inf_nan=False, gt=0, le=1e15), BeforeValidator(_number)]


class RopeScaling(Record):
    """How rotary positions are stretched; the names are those of transformers' ``rope_scaling``."""

    kind: Literal["linear", "dynamic", "yarn", "llama3", "longrope"]
    factor: Above | None = None
    original_positions: Positive | None = None
    low_freq_factor: Above | None = None
    high_freq_factor: Above | None = None
    beta_fast: Above | None = None
    beta_slow: Above | None = None
    mscale: Value | None = None
    mscale_all_dim: Value | None = None
    attention_factor: Above | None = None
    truncate: Flag | None = None
    short_factor: tuple[Above, ...] | None = None
    long_factor: tuple[Above, ...] | None = None

    @model_validator(mode="after")
    def _check(self) -> RopeScaling:
        needed = {
            "longrope": ("short_factor", "long_factor"),
            "llama3": ("factor", "original_positions", "low_freq_factor", "high_freq_factor"),
        }.get(self.kind, ("factor",))
        absent = [name for name in needed if getattr(self, name) is None]
        if absent:
            raise ValueError(f"{', '.join(absent)}, since the kind is {self.kind}")
        return self

    @property
    def stretches_values(self) -> bool:
        """Whether what is turned is scaled too, by YaRN's factor of attention.

        References
        ----------
        .. [1] B. Peng et al., arXiv:2309.00071, 2023, eq. 15; with two factors, the ratio of theirs
           (Hugging Face Transformers, ``modeling_rope_utils.py``).
        """
        if self.kind != "yarn":
            return False
        if self.attention_factor is not None:
            return self.attention_factor != 1.0
        return not self.mscale or self.mscale != self.mscale_all_dim


class Router(Record):
    """How tokens choose their experts, and what keeps these in balance."""

    score: Literal["softmax", "sigmoid"] | None = None
    groups: Positive | None = None
    top_groups: Positive | None = None
    scale: Above | None = None
    normalize: Flag | None = None
    expert_bias: Flag | None = None
    aux_loss: Value | None = None
    per_sequence: Flag = False

    @model_validator(mode="after")
    def _check(self) -> Router:
        if (self.top_groups or 1) > (self.groups or 1):
            raise ValueError(f"top_groups ({self.top_groups}) of at most groups ({self.groups or 1})")
        return self

    @property
    def grouped(self) -> bool:
        """Whether groups of experts are chosen before the experts."""
        return (self.groups or 1) > 1


class PartScales(Record):
    """Constants by which what parts of a layer read or write is multiplied, as Falcon-H1 has them."""

    key: Above = 1.0
    """Of attention's keys. [-]"""
    attention_in: Above = 1.0
    attention_out: Above = 1.0
    """Of what attention reads and returns. [-]"""
    state_in: Above = 1.0
    state_out: Above = 1.0
    """Of what a mixer that passes a state along reads and returns. [-]"""
    state: tuple[Above, Above, Above, Above, Above] = (1.0, 1.0, 1.0, 1.0, 1.0)
    """Of its gate, its inner width, inputs and outputs of its state, and its steps. [-]"""
    feed: tuple[Above, Above] = (1.0, 1.0)
    """Of the feed-forward's gate and its result. [-]"""


Activation = Literal["silu", "gelu", "gelu_tanh", "relu", "relu2", "quick_gelu", "swiglu_oai", "xielu"]
"""``swiglu_oai`` is that of gpt-oss: x sigmoid(1.702 x) (y + 1), with x and y bounded at 7;
``xielu`` has two weights of its own (arXiv:2411.13010)."""


class Numerics(Record):
    """The numbers of a model that no plan decides."""

    rope_theta: Above | None = None
    local_rope_theta: Above | None = None
    """Base of rotary positions, and that of layers with a window where it is another. [-]"""
    rope_fraction: Annotated[float, Field(gt=0, le=1)] | None = None
    """Share of a head's width that has rotary positions (``partial_rotary_factor``). [-]"""
    rope_scaling: RopeScaling | None = None
    """How positions are stretched; with a known base and no record they are not."""
    norm_epsilon: Above | None = None
    """What norms add to the mean square, or to the variance. [-]"""
    init_std: Above | None = None
    """Standard deviation of new weights (``initializer_range``). [-]"""
    activation: Activation | None = None
    """Of the feed-forward, or of its gate."""
    attention_scale: Above | None = None
    """What products of queries and keys are multiplied by; where absent, one over the root of the width.
    [-]"""
    attention_softcap: Above | None = None
    """Bound c of ``c tanh(x / c)`` on attention's products. [-]"""
    qkv_clip: Above | None = None
    """Bound at which queries, keys and values are cut. [-]"""
    logit_softcap: Above | None = None
    """The same on logits. [-]"""
    embedding_scale: Above | None = None
    residual_scale: Above | None = None
    logit_scale: Above | None = None
    value_scale: Above | None = None
    """What embeddings, each layer's outputs, logits and attention's values are multiplied by, where that is
    not one. [-]"""
    part_scales: PartScales | None = None
    """What inputs and results of parts are multiplied by, where that is not one."""
    router: Router | None = None
    """Of the experts, where there are any."""


def said(record: Record) -> dict[str, Any]:
    """Return the fields of numerics, or of a part of them, that say something."""
    return record.model_dump(exclude_none=True, exclude_defaults=True)


def without_place(own: Numerics, names: Iterable[str]) -> list[str]:
    """Return those of ``names`` that say something, as a rule tells that a runner has no place for them."""
    fields = said(own)
    found = [(name, fields[name]) for name in names if name in fields]
    return [
        f"numerics.{name} {value:g}" if isinstance(value, float) else f"numerics.{name} ({', '.join(value)})"
        for name, value in found
    ]
