"""What a model that is taken for another of its shape gets from that one: the numbers that no shape shows."""

from __future__ import annotations

from typing import Final

from planner.inputs.load import load_model
from planner.inputs.numerics import said
from planner.inputs.spoken_model import note_of, zoo_model
from planner.inputs.twins import is_twin

LENT: Final = ("rope_theta", "rope_scaling", "norm_epsilon", "router")


def model_note(text: str) -> str:
    """Return what a model's name was taken for and the numbers it gets so; empty for one of the zoo's own."""
    note, file = note_of(text), zoo_model(text)
    return note + lent_numbers(text, file.stem) if note and file is not None else note


def lent_numbers(text: str, zoo: str) -> str:
    """Return which numbers files have from the zoo's model for another of its shape; empty for none.

    Examples
    --------
    >>> lent_numbers("togethercomputer/LLaMA-2-7B-32K", "llama2-7b")
    '; files have rope_theta 10000, no rope_scaling, norm_epsilon 1e-05 from it: compare its own config.json'
    >>> lent_numbers("Qwen/Qwen2.5-7B-Instruct", "qwen2.5-7b")
    ''
    """
    if not is_twin(text):
        return ""
    own = load_model(zoo).numerics
    known = said(own)
    words = []
    for name in LENT:
        value = known.get(name)
        if isinstance(value, dict):
            words.append(f"{name} {value.get('kind', value.get('score', ''))}".rstrip())
        elif value is not None:
            words.append(f"{name} {value:g}")
        elif name == "rope_scaling" and "rope_theta" in known:
            words.append("no rope_scaling")
    return f"; files have {', '.join(words)} from it: compare its own config.json" if words else ""
