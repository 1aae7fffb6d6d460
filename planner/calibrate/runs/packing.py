"""Fine-tuning runs: short documents packed into one sequence, each attending to itself alone."""

from __future__ import annotations

from typing import Final

from planner.inputs.model import Attention, ModelSpec
from planner.remembered import remembered

DOCUMENT: Final = 256
"""Tokens of a packed document, question and answer included: those of SQuAD. [element]

Its 98,169 examples take 94.06 MiB, 1,005 bytes each [1]_; some 150 of them are identifiers, titles and
positions. Of English text, Llama 2's tokenizer makes a token of 3.17 characters and Llama 3's of 3.94 [2]_:
270 or 217 tokens.

References
----------
.. [1] TensorFlow Datasets, "squad," https://www.tensorflow.org/datasets/catalog/squad.
.. [2] Llama Team, "The Llama 3 Herd of Models," arXiv:2407.21783, 2024, sec. 3.2.
.. [3] NVIDIA, NeMo performance pages: fine-tuning on SQuAD, packed to sequences of 4,096 tokens.
"""


@remembered(most=256)
def packed(model: ModelSpec) -> ModelSpec:
    """Return a model whose attention sees `DOCUMENT` tokens at a time; the same for the same model."""
    blocks = {
        name: block.model_copy(update={"mixer": _cut(block.mixer)})
        if isinstance(block.mixer, Attention)
        else block
        for name, block in model.blocks.items()
    }
    return model.model_copy(update={"blocks": blocks})


def _cut(mixer: Attention) -> Attention:
    if mixer.window is not None and mixer.window <= DOCUMENT:
        return mixer
    return mixer.model_copy(update={"window": DOCUMENT, "chunked": True})
