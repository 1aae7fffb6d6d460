"""PyTorch's on 16-bit logits that are gathered over tp, through the ranks' parts and one flat buffer.

Two bytes, and in backward the logarithm, its gradient and that of the fp32 logit, 4 each; parts and buffer
stay cached, 2 each, since they are of no size that the loss asks for.
"""

from dataclasses import replace

from planner.techniques.losses import eager

ENTRY = replace(
    eager.ENTRY,
    name="gathered",
    cite="https://github.com/Aleph-Alpha/scaling: transformer/model/losses/cross_entropy.py and "
    "core/nn/linear/utils.py, _all_concat",
    logit_bytes=14.0,
    gathered_bytes=4.0,
    beside_backward=True,
)
