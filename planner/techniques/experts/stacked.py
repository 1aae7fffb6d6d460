"""transformers' own: a layer's experts are one parameter, and scores are multiplied after the products."""

from planner.techniques.experts.family import ExpertCode

ENTRY = ExpertCode(
    name="stacked",
    cite="Transformers v5.24.0: integrations/moe.py, grouped_mm_experts_forward",
    result_bytes=2.0,
    stacked=True,
)
