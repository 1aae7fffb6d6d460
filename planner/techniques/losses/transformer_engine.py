"""Transformer Engine's kernel on logits divided by tp: no more than the logits and their gradient.

A gradient in fp32 beside 16-bit logits since release 2.18 (01bbe3ee): 2 + 4 bytes. Before, it was written
over the logits (v2.9): two reads, a write and a product with the gradient from above, 6 + 4 bytes of traffic,
with which all are priced.
"""

from planner.techniques.losses.family import Loss

ENTRY = Loss(
    name="transformer-engine",
    aliases=("te",),
    cite="https://github.com/NVIDIA/TransformerEngine/blob/v2.9/transformer_engine/pytorch/cross_entropy.py; "
    "01bbe3ee: pytorch/triton/cross_entropy.py",
    logit_bytes=6.0,
    traffic=10.0,
)
