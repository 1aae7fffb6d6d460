"""Text shared by the training scripts that are written beside a config: where the tokens come from."""

DATA = '''

def token_blocks(tokenizer, part, parts):
    """Yield blocks of SEQ_LEN + 1 tokens; this reader takes every ``parts``-th document from ``part`` on."""
    documents = load_dataset(os.environ["DATA_PATH"], split="train", streaming=True)
    held = []
    while True:
        for index, document in enumerate(documents):
            if index % parts != part:
                continue
            held += tokenizer(document["text"])["input_ids"] + [tokenizer.eos_token_id]
            while len(held) > SEQ_LEN:
                yield held[: SEQ_LEN + 1]
                held = held[SEQ_LEN:]


def batches(micro_batch, part, parts, device):
    """Yield inputs and next tokens, ``micro_batch`` sequences at a time."""
    tokenizer = AutoTokenizer.from_pretrained(os.environ["TOKENIZER_PATH"])
    blocks = token_blocks(tokenizer, part, parts)
    while True:
        tokens = torch.tensor([next(blocks) for _ in range(micro_batch)], device=device)
        yield tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
'''
"""Reads the folder or data set ``DATA_PATH`` with a ``text`` column; uses SEQ_LEN."""
