"""nanotron's chain on logits divided by tp, and Megatron-LM's of 2022-24: the difference is a tensor apart.

Of a logit stay the block of its 16-bit value, its fp32 copy and its difference from the largest, in whose
place the power is taken: 2 + 4 + 4 bytes.
"""

from dataclasses import replace

from planner.techniques.losses import vocab_parallel

ENTRY = replace(
    vocab_parallel.ENTRY,
    name="vocab-parallel-copied",
    cite="nanotron 2411b022: parallel/tensor_parallel/functional.py, _ShardedCrossEntropy; models/llama.py, "
    "cast_to_fp32; Megatron-LM 55817ec9: megatron/core/tensor_parallel/cross_entropy.py",
    logit_bytes=10.0,
)
