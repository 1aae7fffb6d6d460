"""A reentrant one around whole layers, also where the context method has checkpoints of its own."""

from dataclasses import replace

from planner.techniques.checkpointing import around_units

ENTRY = replace(
    around_units.ENTRY,
    name="around-layers",
    cite="Transformers 4.36: modeling_utils.py, gradient_checkpointing_enable; RulinShao/LightSeq, "
    "lightseq/lightseq_ckpt_monkey_patch.py, which replaces it",
    repeats_methods=True,
)
