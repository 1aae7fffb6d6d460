"""transformers' of DeepSeek-V3 and GLM-4.5, which casts tokens to fp32 before the router's product."""

from planner.techniques.routers.family import RouterCode

ENTRY = RouterCode(
    name="fp32",
    cite="Transformers v5.24.0: models/deepseek_v3/modeling_deepseek_v3.py, DeepseekV3TopkRouter",
    reads_fp32=True,
)
