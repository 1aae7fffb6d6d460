"""Attention in chunks as transformers runs it: by PyTorch's fused kernel, which takes no mask of several."""

from __future__ import annotations

from planner.inputs.model import Attention
from planner.rules import Rule
from planner.runtimes.family import Job


def chunk_rules(job: Job) -> list[Rule]:
    """Return the rule that a sequence is shorter than the chunks that layers see, so that no mask is needed.

    References
    ----------
    .. [1] Hugging Face, Transformers v5.23.0, ``masking_utils.py``, ``_ignore_causal_mask_sdpa``: PyTorch's
       fused kernel takes no mask, and FlashAttention's package refuses longer chunks.
    """
    softmax = [mixer for mixer in job.model.attentions if isinstance(mixer, Attention) and mixer.chunked]
    least = min((mixer.window or 0 for mixer in softmax), default=None)
    if least is None:
        return []
    length = job.workload.seq_len
    return [
        Rule(
            "sequence-within-chunk",
            length < least,
            lambda: (
                f"sequence length {length}",
                f"below {least}, the chunk that attention sees: no fused kernel runs the mask of several",
                f"--seq-len {least // 2}",
            ),
        )
    ]
