"""Which word counts where a whole model and its language model differ on embedding and head."""

from __future__ import annotations

from typing import Any

from planner.inputs.hf_config import ImportedModel, model_from_config
from tests.cases import every

TEXT = {
    "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 1000,
}  # fmt: skip
KEY = "tie_word_embeddings"


def read(kind: str, inner: str, whole: bool | None, text: bool | None) -> ImportedModel:
    raw: dict[str, Any] = {"model_type": kind, "text_config": {**TEXT, "model_type": inner}}
    raw |= {} if whole is None else {KEY: whole}
    raw["text_config"] |= {} if text is None else {KEY: text}
    return model_from_config(raw, "config.json", kind)


@every(
    ("kind", "inner", "whole", "text", "tied", "note"),
    [
        ("voxtral", "llama", None, True, False, "the class of voxtral ties nothing"),
        ("voxtral", "llama", True, None, False, "the class of voxtral ties nothing"),
        ("voxtral", "llama", False, None, False, ""),
        ("llava", "llama", False, True, True, "its text_config's word counts"),
        ("llava", "llama", True, False, True, "as the whole model says"),
        ("llava_next", "llama", False, True, False, "as the whole model says"),
        ("llava_next", "llama", None, True, True, "one matrix, as in text_config; transformers 5 makes two"),
        ("llava_next", "llama", None, False, False, ""),
        ("mistral3", "mistral", None, False, False, "two matrices, as in text_config; transformers 5"),
        ("mistral3", "mistral", True, None, True, ""),
    ],
)
def test_one_word_counts_and_another_is_told(
    kind: str, inner: str, whole: bool | None, text: bool | None, tied: bool, note: str
) -> None:
    """By the classes of transformers 5.24, as ``tests/torch/test_import_ties.py`` builds them."""
    found = read(kind, inner, whole, text)
    assert found.model.tied_embeddings is tied
    told = [one for one in found.notes if KEY in one]
    assert (not told) if not note else any(note in one for one in told)
