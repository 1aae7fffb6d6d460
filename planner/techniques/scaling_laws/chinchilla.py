"""Twenty tokens for each parameter, as the Chinchilla paper's first approach finds at all sizes."""

from planner.techniques.scaling_laws.family import ScalingLaw

ENTRY = ScalingLaw(
    name="chinchilla",
    cite="arXiv:2203.15556, table 3",
    tokens_per_param=20.0,
    aliases=("20-to-1",),
)
