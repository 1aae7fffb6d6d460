"""torchtitan's: sinks scale the result of a kernel that knows none."""

from planner.techniques.attention_codes.family import AttentionCode

ENTRY = AttentionCode(
    name="rescaled",
    cite="torchtitan b5bcd76c: torchtitan/models/gpt_oss/model.py, apply_attention_sink_rescale",
    rescales_sinks=True,
)
