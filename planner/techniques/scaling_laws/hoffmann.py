"""The Chinchilla paper's parametric fit, which asks for more tokens than its own model had."""

from planner.formulas.scaling import LossFit
from planner.techniques.scaling_laws.family import ScalingLaw

ENTRY = ScalingLaw(
    name="hoffmann",
    cite="arXiv:2203.15556, section D.3",
    fit=LossFit(floor=1.69, size=406.4, data=410.7, size_power=0.34, data_power=0.28),
    aliases=("chinchilla-parametric",),
)
