"""A Python file of Megatron-Bridge with one ``ConfigContainer``, read by its syntax tree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from planner.dataclasses import replace
from planner.inputs.load import load_model
from planner.runtimes.imports.command_line import Training
from planner.runtimes.imports.file_format import FileFormat, Source
from planner.runtimes.imports.model import with_record
from planner.runtimes.imports.python_fields import Fields, python_fields
from planner.runtimes.imports.sheet import Imported
from planner.runtimes.imports.zoo import names_of_shape
from planner.runtimes.megatron_bridge.reading.bridge_adapters import adapted, is_latent
from planner.runtimes.megatron_bridge.reading.bridge_own_layers import core_layer_fields, with_own_layers
from planner.runtimes.megatron_bridge.reading.bridge_sums import bridge_sums
from planner.runtimes.megatron_bridge.reading.bridge_vision import language_fields, with_images
from planner.runtimes.megatron_bridge.reading.core_fields import (
    core_flags,
    field_of,
    set_traits,
    unknown_fields,
)
from planner.runtimes.megatron_bridge.sections import GATHERS
from planner.runtimes.megatron_lm.flags import padded_vocab
from planner.runtimes.megatron_lm.layout import layout_stages
from planner.runtimes.megatron_lm.reading.megatron import from_script
from planner.runtimes.megatron_lm.reading.megatron_kernels import UNFUSED
from planner.runtimes.megatron_lm.settings import DROPOUT
from planner.units import is_whole

ROOT: Final = "ConfigContainer."
SECTIONS: Final = ("comm_overlap", "optimizer", "model", "train", "ddp")
"""Sections whose fields decide a price; of a field that two have, the later counts."""

RANKS: Final = "use_tp_pp_dp_mapping"
"""Field that lays the stages of a pipeline side by side."""

FP8_RECIPE: Final = "mixed_precision.fp8_recipe"
"""Field of a recipe of low bits, which decides in 16 bits who keeps the masters."""

PROVIDERS: Final = ("GPTModelProvider", "MLAModelProvider")
"""Providers that have Megatron-core's own defaults, dropout among them."""

LATENT_DEFAULTS: Final = {"multi_latent_attention": True, "rope_type": "yarn", "rotary_scaling_factor": 40}
"""What Megatron-core has for latent attention that says nothing (``MLATransformerConfig``)."""


def fits(source: Source) -> bool:
    """Return whether a Python file builds a ``ConfigContainer``."""
    return "ConfigContainer(" in source.text and any(
        key.startswith(f"{ROOT}model.") for key in python_fields(source.text)
    )


def read(source: Source) -> Imported:
    """Return what the file says, with the command that starts it."""
    return read_fields(python_fields(source.text), source)


def read_fields(said: Fields, source: Source) -> Imported:
    """Return what the fields of a container say, by their places in it (``ConfigContainer.train...``)."""
    own = language_fields(said, section_fields(said))
    fields = core_layer_fields(said, own)
    flags = lm_flags(fields, said.get(f"{ROOT}checkpoint.ckpt_format"))
    found, record = from_script(bridge_training(flags, source.starter), source.where)
    found = replace(as_fields(found, unknown_fields(fields)), options=adapters(said, found))
    found = with_masters(said, replace(found, changes=(*found.changes, *set_traits(fields))))
    found = bridge_sums(said, ROOT, found, source.where)
    if record is None:
        return found
    record = with_own_layers(said, own, record)
    found, record = with_images(said, found, record, source.where)
    vocab = source.vocab or _vocabulary(record, fields, tokens_of(said), source.where)
    return with_record(found, record | {"vocab": vocab}, source.path, "model.vocab_size")


def with_masters(said: Fields, found: Imported) -> Imported:
    """Return what was found, with whole masters where Megatron-core keeps them in spite of the flag.

    References
    ----------
    .. [1] Megatron-LM d98e8a64, ``core/optimizer/optimizer_config.py``,
       ``use_precision_aware_optimizer_no_fp8_or_ds_fp8``; Megatron-Bridge 067f987d,
       ``training/mixed_precision.py``: ``fp8_recipe`` is ``tensorwise`` and goes to the optimizer's config.
    """
    aware = said.get(f"{ROOT}optimizer.use_precision_aware_optimizer") is True
    taken = said.get(f"{ROOT}{FP8_RECIPE}", "tensorwise") in (None, "delayed")
    bits = found.options.get("precision", "bf16") in ("bf16", "fp16")
    if not aware or taken or not bits or {"master_dtype", "offload"} & set(found.options):
        return found
    return replace(found, changes=(*found.changes, "whole_masters=true"))


def lm_flags(fields: Fields, form: object) -> dict[str, str]:
    """Return the flags of Megatron-LM that say the fields; it takes a layout without a count of chunks."""
    flags = core_flags(fields)
    layout, chunks = "--pipeline-model-parallel-layout", "--num-virtual-stages-per-pipeline-rank"
    pp = str(fields.get("pipeline_model_parallel_size", 1))
    count = flags.get(chunks, "1")
    if layout in flags and is_whole(pp) and is_whole(count):
        stages = len(layout_stages(flags[layout]))
        if stages == int(pp) * int(count):
            flags.pop(chunks, None)
    if "--overlap-grad-reduce" not in flags:  # Bridge lets parameters overlap alone, Megatron-LM does not
        flags.pop("--overlap-param-gather", None)
    return flags | ({"--ckpt-format": str(form)} if form is not None else {})


def section_fields(said: Fields) -> Fields:
    """Return the fields of the sections as one table, with what names and traits need beside them."""
    fields: Fields = {}
    for section in SECTIONS:
        place = f"{ROOT}{section}."
        fields |= {key.removeprefix(place): value for key, value in said.items() if key.startswith(place)}
    mixed = said.get(f"{ROOT}mixed_precision.", said.get(f"{ROOT}mixed_precision"))
    fields["mixed_precision"] = mixed
    fields["grad_reduce_in_fp32"] = said.get(
        f"{ROOT}mixed_precision.grad_reduce_in_fp32", fields.get("grad_reduce_in_fp32")
    )
    for name in ("fp8_param_gather", "fp4_param_gather", "fp8_dot_product_attention"):
        usual = True if GATHERS.get(str(mixed)) == name else None
        fields[name] = said.get(f"{ROOT}mixed_precision.{name}", fields.get(name, usual))
    if said.get(f"{ROOT}dist.{RANKS}") is True:
        fields[RANKS] = True
    if f"{ROOT}peft.dropout" in said:
        fields["peft_dropout"] = said[f"{ROOT}peft.dropout"]
    if said.get(f"{ROOT}peft") == "LoRA":
        fields["peft_a2a"] = said.get(f"{ROOT}peft.a2a_experimental", False)
        fields["peft_regather"] = said.get(f"{ROOT}peft.sequence_parallel_input_regather", False)
    names = ("ddp.use_distributed_optimizer", "optimizer.use_distributed_optimizer")
    sharded = [
        said.get(f"{ROOT}{name}") for name in (*names, "optimizer.use_layer_wise_distributed_optimizer")
    ]
    fields["use_distributed_optimizer"] = True in sharded or next(
        (one for one in sharded if one is not None), None
    )
    fields.setdefault("max_position_embeddings", fields.get("seq_length"))
    if said.get(f"{ROOT}model") in PROVIDERS:
        own = {"attention_dropout": DROPOUT, "hidden_dropout": DROPOUT, "cpu_offloading": False}
        fields = own | fields
    if said.get(f"{ROOT}model") == "MLAModelProvider":
        fields = dict(LATENT_DEFAULTS) | fields
    return fields


def bridge_training(flags: Mapping[str, str], starter: Training | None) -> Training:
    """Return fields as the command of Megatron-LM that says the same; ZeRO-1 is a flag of its own there."""
    nodes, ranks = (starter.nodes, starter.ranks) if starter else (None, None)
    doubts, said = (starter.doubts, starter.environment) if starter else ((), {})
    return Training("megatron-lm", flags, nodes, ranks, None, doubts, environment=said)


def adapters(said: Fields, found: Imported) -> dict[str, str]:
    """Return options with those of LoRA, where the container has such a section."""
    options = dict(found.options)
    if said.get(f"{ROOT}peft") == "LoRA":
        names = adapted(said.get(f"{ROOT}peft.target_modules"), is_latent(said, ROOT))
        options |= {"method": "lora", "lora_rank": str(said.get(f"{ROOT}peft.dim", 32))}
        options |= {"lora_targets": "+".join(names)} if names else {}
    return options


def tokens_of(said: Fields) -> tuple[int, ...]:
    """Return the tokens of tokenizers that a file makes, also for a trial run."""
    return tuple(
        size for key, size in said.items() if key.endswith("tokenizer.vocab_size") and type(size) is int
    )


def _vocabulary(record: Mapping[str, Any], fields: Fields, tokens: tuple[int, ...], where: str) -> int | None:
    """Return the tokens of the model: a tokenizer's or the zoo's whose padded table has the size said."""
    size = fields.get("vocab_size")
    if size is None:
        return None
    said = fields.get("tensor_model_parallel_size")
    tp = said if isinstance(said, int) and said > 0 else 1
    for vocab in (*tokens, *(load_model(name).vocab for name in names_of_shape(record, where))):
        if size == vocab or padded_vocab(vocab, float(tp)) == size:
            return vocab
    return size if isinstance(size, int) else None


def as_fields(found: Imported, unknown: tuple[str, ...]) -> Imported:
    """Return what flags were found to say, with the fields in the flags' place."""
    places = {option: field_of(flag) for option, flag in found.places.items()}
    faults = tuple(
        (option, replace(problem, where=_renamed(problem.where))) for option, problem in found.faults
    )
    changes = tuple(change for change in found.changes if change != UNFUSED)  # its models fuse the loss
    return replace(
        found, runtime="megatron-bridge", places=places, changes=changes, faults=faults, unknown=unknown
    )


def _renamed(where: str) -> str:
    file, colon, flag = where.rpartition(": ")
    return f"{file}{colon}{field_of(flag)}"


ENTRY: Final = FileFormat("a Megatron-Bridge .py", (".py",), fits, read)
