"""The precision in which attention multiplies."""

from planner.techniques.settings.family import Setting, in_low_bits

ENTRY = Setting(
    name="attention_precision",
    about="whether attention multiplies in 16 bit or in fp8 where products are in low bits",
    cite="https://github.com/NVIDIA/TransformerEngine/blob/d0067d0d/transformer_engine/common/recipe/"
    "__init__.py, fp8_dpa",
    values={"16-bit": {"fp8_attention": False}, "fp8": {"fp8_attention": True}},
    matters=in_low_bits,
    numerics=True,
    evidence={"fp8": "MLPerf's runs of Llama 2 70B (LoRA) on H100 and B200, and of Llama 3.1 8B on B200"},
)
