"""The same where whole heads turn, so that no part is put beside another."""

from planner.formulas.elementwise import ROTARY_HALVES
from planner.techniques.rotary_chains.family import RotaryChain

ENTRY = RotaryChain(
    name="packed",
    cite="Transformers v5.23.0: models/modernbert/modeling_modernbert.py, apply_rotary_pos_emb",
    traffic=ROTARY_HALVES,
    keeps=True,
)
