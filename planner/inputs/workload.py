"""What is to be trained: sequences, batch, precision, optimizer, and how much of the model learns."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AfterValidator, Field, PositiveFloat, PositiveInt, ValidationError

from planner.deferred import deferred
from planner.errors import InputError
from planner.fields import default
from planner.inputs.build import wrong_input
from planner.inputs.record import Record

with deferred():
    from planner.inputs import lengths

if TYPE_CHECKING:
    from planner.inputs.lengths import PackedLengths

Dtype = Literal["fp32", "bf16", "fp16", "fp8"]

DTYPE_BYTES = {"fp32": 4.0, "bf16": 2.0, "fp16": 2.0, "fp8": 1.0}
"""Bytes of one element. [byte]"""


Target = Literal["qkv", "proj", "fc1", "fc2", "ends"]

TARGETS: Mapping[Target, tuple[str, ...]] = {
    "qkv": (
        "linear_qkv",
        "q_proj",
        "k_proj",
        "v_proj",
        "wqkv",
        "query_key_value",
        "qkv_proj",
        "c_attn",
        "w_pack",
    ),
    "proj": ("linear_proj", "o_proj", "attn_out", "out_proj"),
    "fc1": ("linear_fc1", "gate_proj", "up_proj", "gate_up_proj", "mlp_in", "dense_h_to_4h"),
    "fc2": ("linear_fc2", "down_proj", "mlp_out", "dense_4h_to_h"),
    "ends": (),
}
"""Groups of linear layers that adapters stand beside, with the names that runners have for them: queries,
keys and values; attention's output; a feed-forward's first products, experts' among them; and its last.
``ends`` are embedding and head, of which a copy is trained whole (PEFT's ``modules_to_save``).

References
----------
.. [1] NVIDIA, Megatron-Bridge 067f987d, ``src/megatron/bridge/peft/lora.py``: ``target_modules``.
.. [2] Hugging Face, PEFT, ``peft/utils/constants.py``: names of modules in transformers.
"""


EVERY_TARGET = ("all", "all-linear", "all_linear")
LINEAR: tuple[Target, ...] = ("qkv", "proj", "fc1", "fc2")
"""What those words stand for."""


def adapted_groups(text: str) -> tuple[Target, ...]:
    """Return the groups of linear layers that a list of names says have adapters; none stands for all.

    Raises
    ------
    ValueError
        If a name is unknown.

    Examples
    --------
    >>> adapted_groups("linear_qkv+linear_proj"), adapted_groups("q_proj, v_proj"), adapted_groups("all")
    (('qkv', 'proj'), ('qkv',), ())
    >>> adapted_groups("qkv+ends"), adapted_groups("all+ends")[-1]
    (('qkv', 'ends'), 'ends')
    """
    names = [name for name in re.split(r"[\s,;+/|]+", text.strip().lower()) if name]
    groups = [next((key for key, known in TARGETS.items() if name in (key, *known)), name) for name in names]
    groups += LINEAR if set(groups) & set(EVERY_TARGET) else ()
    left = set(groups) - set(EVERY_TARGET)
    if not left & set(LINEAR) or not left <= set(TARGETS):
        raise ValueError(text)
    found: tuple[Target, ...] = tuple(key for key in TARGETS if key in left)
    return () if found == LINEAR else found


def _lengths(text: str) -> str:
    """Return a source of lengths in its one spelling; a wrong one is a fault of its field."""
    try:
        return lengths.read_lengths(text, "seq_lens")
    except InputError as error:
        raise ValueError("; ".join(one.expected for one in error.problems)) from None


class WorkloadFields(Record):
    """The fields of a `Workload`, whose faults a file that holds them tells with their place in it."""

    seq_len: PositiveInt = default("seq_len")
    global_batch: PositiveInt = default("global_batch")
    precision: str = default("precision")
    optimizer: str = default("optimizer")
    state_dtype: Dtype | None = None
    master_dtype: Dtype | None = None
    gradient_dtype: Dtype | None = None
    method: str = default("method")
    lora_rank: PositiveInt = default("lora_rank")
    lora_targets: tuple[Target, ...] | None = None
    document_tokens: PositiveInt | None = None
    seq_lens: Annotated[str, AfterValidator(_lengths)] | None = None
    max_tokens_per_rank: PositiveInt | None = None
    images: PositiveInt = default("images")
    freeze_encoder: bool = default("freeze_encoder")
    train_projector: bool = default("train_projector")
    imbalance: Annotated[float, Field(ge=1.0)] = default("imbalance")
    tokens: PositiveFloat | None = None


class Workload(WorkloadFields):
    """A training job, apart from the model and the cluster.

    ``optimizer``, ``precision`` and ``method`` name entries of the tables in ``planner.techniques``; a dtype
    of None is the runtime's own. ``lora_targets`` are groups of `TARGETS` that have adapters, None for all.
    ``document_tokens`` is the mean length of the documents that a sequence is packed from, each of which
    attends to itself alone; None where attention sees the whole sequence. [element]
    ``seq_lens`` is a source of unequal lengths that are packed to ``seq_len`` (`planner.inputs.lengths`), of
    which a rank takes at most ``max_tokens_per_rank`` where context parallelism follows the length.
    ``images`` is how many a sequence holds where the model has an encoder, which ``freeze_encoder`` leaves as
    it is, but for its projectors where ``train_projector`` says so. [-]
    """

    if not TYPE_CHECKING:

        def __init__(self, **values: object) -> None:
            """Make a workload.

            Raises `InputError` with every field that is unknown or wrong.
            """
            try:
                super().__init__(**values)
            except ValidationError as error:
                raise wrong_input(Workload, values, "Workload", error) from None

    @property
    def projects(self) -> bool:
        """Whether projectors learn behind an encoder that does not."""
        return self.method == "projector" or (self.train_projector and self.freeze_encoder)

    @property
    def packed(self) -> PackedLengths | None:
        """Unequal lengths packed to sequences; None where all are alike."""
        if self.seq_lens is None:
            return None
        return lengths.packed(self.seq_lens, self.seq_len)

    @property
    def attended_tokens(self) -> float | None:
        """Length of equal documents whose attention costs as much; None where it sees all. [token]"""
        known = self.packed
        return self.document_tokens if known is None else known.attended

    @property
    def reduces_states(self) -> bool:
        """Whether optimizer moments or master weights are asked for in another dtype than fp32."""
        return bool({self.state_dtype, self.master_dtype} - {None, "fp32"})

    @property
    def slots_per_step(self) -> int:
        """Tokens that one optimizer step computes, those that packing leaves empty among them. [-]"""
        return self.seq_len * self.global_batch

    @property
    def tokens_per_step(self) -> int:
        """Tokens in one optimizer step, those that packing leaves empty not among them. [-]"""
        known = self.packed
        return self.slots_per_step if known is None else round(self.slots_per_step * known.filled)
