"""Linear layers in 8 bit, each tensor's scale from the maxima of earlier steps; priced as `fp8`."""

from dataclasses import replace

from planner.techniques.precision import fp8

# Its cast reads a tensor once, where a scale of now reads it twice: no cast of its own is measured, so that
# the price of casts is rather too high. The maxima kept are 1024 numbers a tensor, which memory leaves out.
ENTRY = replace(fp8.ENTRY, name="fp8-delayed", aliases=("fp8-delayed-scaling",))
