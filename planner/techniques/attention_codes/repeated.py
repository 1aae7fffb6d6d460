"""transformers' for PyTorch's kernel: keys and values repeated, the output made contiguous."""

from planner.techniques.attention_codes.family import AttentionCode

ENTRY = AttentionCode(
    name="repeated",
    cite="Transformers v5.23.0: integrations/sdpa_attention.py, repeat_kv and sdpa_attention_forward",
    copies=True,
)
