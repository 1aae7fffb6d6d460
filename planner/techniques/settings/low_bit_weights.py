"""How weights that are multiplied in low bits rest."""

from planner.techniques.settings.family import Setting, in_low_bits

ENTRY = Setting(
    name="low_bit_weights",
    about="whether weights in low-bit formats rest beside 16-bit ones or alone, and are gathered in low bits",
    cite="https://github.com/NVIDIA/Megatron-LM/tree/d98e8a64ddf34856e74b24714e3bedb2f5a39553, "
    "core/model_parallel_config.py, fp8_param",
    values={"beside": {"low_bit_weights": "beside"}, "alone": {"low_bit_weights": "alone"}},
    matters=in_low_bits,
    evidence={"alone": "low-bit recipes of Megatron-Bridge, all of which have it"},
)
