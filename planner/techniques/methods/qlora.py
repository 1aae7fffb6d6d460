"""QLoRA: frozen weights in 4-bit NormalFloat with doubly quantised scales, 16-bit factors beside them.

Storage is 4 bits and 0.127 bits of scales for each weight (sec. 3, double quantization); a product reads
that and writes and reads the rebuilt 16-bit weight.
"""

from planner.techniques.methods.family import TUNING_BATCH, Method, lora_params

SCALE_BYTES = 0.127 / 8
STORED_BYTES = 4 / 8 + SCALE_BYTES

ENTRY = Method(
    name="qlora",
    cite="arXiv:2305.14314",
    frozen_weight_bytes=STORED_BYTES,
    dequantise_bytes=STORED_BYTES + 2.0,
    adapter_params=lora_params,
    scale_bytes=SCALE_BYTES,
    global_batch=TUNING_BATCH,
)
