"""InternEvo's hybrid ZeRO-1: whole parameters have owners, who step and broadcast them."""

from planner.dataclasses import replace
from planner.techniques.engines import distributed_optimizer

ENTRY = replace(
    distributed_optimizer.ENTRY,
    name="internevo-zero",
    cite="https://github.com/InternLM/InternEvo: internlm/solver/optimizer/hybrid_zero_optim.py",
    gathers_at_once=True,
    states="owners",
)
