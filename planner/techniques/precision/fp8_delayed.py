"""Linear layers in 8 bit, each tensor's scale from the maxima of earlier steps; else as `fp8`."""

from planner.dataclasses import replace
from planner.techniques.precision import fp8

# The maxima kept are 1024 numbers a tensor, which memory leaves out.
ENTRY = replace(fp8.ENTRY, name="fp8-delayed", instead="fp8", aliases=("fp8-delayed-scaling",), delayed=True)
