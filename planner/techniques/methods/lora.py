"""LoRA: frozen 16-bit weights, trained low-rank factors beside every linear layer."""

from planner.techniques.methods.family import TUNING_BATCH, Method, lora_params

ENTRY = Method(
    name="lora",
    cite="arXiv:2106.09685",
    frozen_weight_bytes=2.0,
    dequantise_bytes=0.0,
    adapter_params=lora_params,
    global_batch=TUNING_BATCH,
)
