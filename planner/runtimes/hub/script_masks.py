"""What a training script says otherwise where masked tokens are filled in, not the next ones predicted."""

from __future__ import annotations

from typing import Final

MASKED_SHARE: Final = 0.15
"""Share of the tokens that are picked (J. Devlin et al., arXiv:1810.04805, sec. 3.1). [-]"""

_MARKS: Final = '''
    def marks(self):
        """Return how many words there are, and the one that hides others."""
        from transformers import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(os.environ["TOKENIZER_PATH"])
        if tokenizer.mask_token_id is None:
            sys.exit("The tokenizer at TOKENIZER_PATH has no mask token.")
        return len(tokenizer), tokenizer.mask_token_id

    def turn(self):
        """Return a number of its own for each batch, the same after a restart."""
        return self.seed + 1_000_003 * self.document + len(self.held)
'''

_MOCK_MARKS: Final = '''
    def marks(self):
        """Return how many words there are, and the last one."""
        words = AutoConfig.from_pretrained(HERE).vocab_size
        return words, words - 1
'''

_MASKED: Final = '''
def masked(tokens, words, mask, seed):
    """Pick MASKED_SHARE of the tokens, hide 80% of these, make up 10%. Return what is seen, and targets.

    J. Devlin et al., arXiv:1810.04805, sec. 3.1; a target of -100 counts in no loss.
    """
    numbers = torch.Generator().manual_seed(seed)
    picked, fate = (torch.rand(tokens.shape, generator=numbers).to(tokens.device) for _ in range(2))
    made_up = torch.randint(words, tokens.shape, generator=numbers).to(tokens.device)
    seen = torch.where(fate < 0.8, mask, torch.where(fate < 0.9, made_up, tokens))
    apart = picked >= MASKED_SHARE
    return torch.where(apart, tokens, seen), tokens.masked_fill(apart, -100)


class Reader:
'''

_ONE_BIAS: Final = '''
def with_one_bias(model):
    """Let the head alone hold its bias: FSDP2 shards no parameter that two modules have."""
    head = model.get_output_embeddings()
    for module in model.modules():
        if module is not head and head.bias is not None and getattr(module, "bias", None) is head.bias:
            del module.bias
    for name in ("_tied_weights_keys", "all_tied_weights_keys"):
        tied = getattr(model, name, None) or {}
        setattr(model, name, {one: other for one, other in tied.items() if not one.endswith("bias")})
    return model


def make_trained(accelerator, options):
'''
TRAINED: Final = "\ndef make_trained(accelerator, options):\n"
LEARNED: Final = "model = make_trained(accelerator, options)"

BATCH: Final = "yield tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()"
_BLOCKS: Final = "\n    def _blocks(self):\n"
ENTROPY: Final = "position_ids=positions, use_cache=False, **routed)"


def with_masks(text: str) -> str:
    """Return a training script that fills in masked tokens, made of one that predicts the next.

    Raises `ValueError` if the script lacks what is said otherwise.
    """
    head, documents, mock = parted(text)
    documents = said(documents, "\nclass Reader:\n", _MASKED)
    documents = said(documents, BATCH, "yield masked(tokens[:, :-1].contiguous(), *marks, self.turn())")
    documents = said(documents, "blocks = self._blocks()", "blocks, marks = self._blocks(), self.marks()")
    documents = said(documents, "Yield inputs and next tokens", "Yield what is seen, and targets")
    documents = said(documents, _BLOCKS, _MARKS + _BLOCKS)
    mock = said(mock, _BLOCKS, _MOCK_MARKS + _BLOCKS)
    mock = said(mock, ", " + ENTROPY, ")")
    if TRAINED in mock:
        mock = said(mock, LEARNED, LEARNED.replace("make_trained(", "with_one_bias(make_trained(") + ")")
        mock = said(mock, TRAINED, _ONE_BIAS)
    whole = head + documents + mock
    return whole.replace("AutoModelForCausalLM", "AutoModelForMaskedLM")


def parted(text: str) -> tuple[str, str, str]:
    """Return what stands before the reader of documents, that reader, and the rest."""
    start, mock = text.index("\nclass Reader:\n"), text.index("\nclass Mock(Reader):\n")
    return text[:start], text[start:mock], text[mock:]


def said(text: str, old: str, new: str) -> str:
    """Return a script in which ``old``, which stands there once, is ``new``.

    Raises `ValueError` if it does not, or more often.
    """
    if text.count(old) != 1:
        raise ValueError(f"a script with {old.strip()!r} once")
    return text.replace(old, new)
