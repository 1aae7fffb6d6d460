"""By halves, of a product that is one with the values', so that all of it stays beside what was turned."""

from planner.formulas.elementwise import ROTARY_HALVES
from planner.techniques.rotary_chains.family import RotaryChain

ENTRY = RotaryChain(
    name="joined",
    cite="Transformers v5.23.0: models/phi3/modeling_phi3.py, apply_rotary_pos_emb",
    traffic=ROTARY_HALVES,
    keeps=True,
    joins="always",
)
