"""Hugging Face's: PyTorch's in fp32, while the model's output still holds the logits in 16 bits."""

from dataclasses import replace

from planner.techniques.losses import eager

ENTRY = replace(
    eager.ENTRY,
    name="transformers",
    cite="Transformers v5.24.0: loss/loss_utils.py, ForCausalLMLoss; modeling_outputs.py",
    logit_bytes=14.0,
    split_bytes=4.0,
)
