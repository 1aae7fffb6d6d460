"""L-GreCo: bits chosen layer by layer, by an integer program that keeps the error of uniform bits."""

from planner.techniques.compress.family import Compression

ENTRY = Compression(
    name="layerwise",
    cite="arXiv:2210.17357",
    about="2 to 8 bits by layer, with the error that 4 bits everywhere have",
    sent_bytes=lambda amount: amount / 8.0,
    penalty="that of int4 by the errors assumed; measured errors decide (arXiv:2210.17357)",
    pass_bytes=9.0,
    amount=4.0,
    bounds=(0.0, 8.0),
    aliases=("l-greco",),
)
