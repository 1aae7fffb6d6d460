"""The Chinchilla paper's runs fitted anew, which agrees with its other two approaches."""

from planner.formulas.scaling import LossFit
from planner.techniques.scaling_laws.family import ScalingLaw

ENTRY = ScalingLaw(
    name="besiroglu",
    cite="arXiv:2404.10102",
    fit=LossFit(floor=1.8172, size=482.01, data=2085.43, size_power=0.3478, data_power=0.3658),
    aliases=("chinchilla-refit",),
)
