"""A chain that a compiler scripts: it moves less than PyTorch's own, and keeps copies."""

from planner.formulas.elementwise import ROTARY
from planner.techniques.rotary_chains.family import RotaryChain

ENTRY = RotaryChain(
    name="scripted",
    cite="Megatron-LM d98e8a64: megatron/core/models/common/embeddings/rope_utils.py, "
    "_apply_rotary_pos_emb_bshd",
    traffic=ROTARY[False],
    keeps=True,
)
