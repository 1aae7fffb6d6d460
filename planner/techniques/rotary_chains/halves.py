"""transformers' by halves: it multiplies by constants, and keeps nothing."""

from planner.formulas.elementwise import ROTARY_HALVES
from planner.techniques.rotary_chains.family import RotaryChain

ENTRY = RotaryChain(
    name="halves",
    cite="Transformers v5.23.0: models/llama/modeling_llama.py, apply_rotary_pos_emb",
    traffic=ROTARY_HALVES,
    joins="parts",
)
