"""Each expert on all tokens: Llama 4 in transformers, whose scores are zero where a token chose another."""

from dataclasses import replace

from planner.techniques.experts import stacked

ENTRY = replace(
    stacked.ENTRY,
    name="every",
    cite="Transformers v5.24.0: models/llama4/modeling_llama4.py, Llama4TextMoe",
    every=True,
)
