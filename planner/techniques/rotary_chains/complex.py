"""torchtitan's as complex numbers in fp32: it keeps nothing."""

from planner.formulas.elementwise import ROTARY_COMPLEX
from planner.techniques.rotary_chains.family import RotaryChain

ENTRY = RotaryChain(
    name="complex",
    cite="torchtitan b5bcd76c: torchtitan/models/common/rope.py, view_as_complex",
    traffic=ROTARY_COMPLEX,
)
