"""What a training script says otherwise of an encoder-decoder: what the encoder reads, and what follows."""

from __future__ import annotations

from typing import Final

from planner.inputs.model import ModelSpec
from planner.runtimes.hub.script_masks import BATCH, ENTROPY, LEARNED, TRAINED, parted, said

_LENGTHS: Final = "SEQ_LEN"
_BLOCK: Final = "(SOURCE_LEN + SEQ_LEN)"


_ONE_TABLE: Final = '''
def with_one_table(model):
    """Let both halves look words up in one module, and keep buffers out of what is loaded sharded.

    FSDP2 shards no parameter that several of its groups see, and Accelerate sends round no buffer.
    """
    table = model.get_input_embeddings()
    for half in (model.get_encoder(), model.get_decoder()):
        half.embed_tokens = table
    for module in model.modules():
        for name, buffer in list(module.named_buffers(recurse=False)):
            module.register_buffer(name, buffer, persistent=False)
    return model


def make_trained(accelerator, options):
'''


def source_settings(model: ModelSpec) -> dict[str, object]:
    """Return the tokens that the encoder of a model reads of each sequence, for the top of a script."""
    return {"SOURCE_LEN": model.encoder.patches} if model.crosses and model.encoder is not None else {}


def with_sources(text: str) -> str:
    """Return a script that trains an encoder-decoder on the first tokens of blocks and those that follow.

    Raises
    ------
    ValueError
        If the script lacks what is said otherwise.

    References
    ----------
    .. [1] C. Raffel et al., arXiv:1910.10683, 2019, sec. 3.2.1 and fig. 4: a prefix is read by the encoder,
       and the decoder predicts the rest.
    """
    head, documents, mock = parted(text)
    batch = "yield tokens[:, :-1].contiguous(), tokens[:, SOURCE_LEN + 1 :].contiguous()"
    documents = said(documents, BATCH, batch)
    documents = said(documents, "Yield inputs and next tokens", "Yield sources with inputs, and next tokens")
    start = documents.index("def _blocks(self)")
    documents = documents[:start] + documents[start:].replace(_LENGTHS, _BLOCK)
    made, rest = mock.split("def reader_of", 1)
    made = said(made, "(SEQ_LEN + 1,)", "(SOURCE_LEN + SEQ_LEN + 1,)")
    parts = "input_ids=inputs[:, :SOURCE_LEN], decoder_input_ids=inputs[:, SOURCE_LEN:]"
    rest = said(rest, "input_ids=inputs, " + ENTROPY, parts + ", use_cache=False)")
    if TRAINED in rest:
        rest = said(rest, LEARNED, LEARNED.replace("make_trained(", "with_one_table(make_trained(") + ")")
        rest = said(rest, TRAINED, _ONE_TABLE)
    whole = head + documents + made + "def reader_of" + rest
    return whole.replace("AutoModelForCausalLM", "AutoModelForSeq2SeqLM")
