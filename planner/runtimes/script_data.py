"""Text shared by the training scripts that are written beside a config: where the tokens come from."""

DATA = '''

def words_of(given):
    """Return the weights and paths of DATA_PATH: one path, several, or a blend such as "0.7 a 0.3 b"."""
    words = [given] if os.path.exists(given) else given.split()
    try:
        weights = [float(word) for word in words[::2]]
    except ValueError:
        return None, words
    return [weight / sum(weights) for weight in weights], words[1::2]


def documents(split, seed):
    """Return the stream of documents of DATA_PATH: folders, files, names of data sets, or a blend."""
    from datasets import interleave_datasets, load_dataset

    formats = {".jsonl": "json", ".json": "json", ".parquet": "parquet", ".txt": "text"}
    weights, paths = words_of(os.environ["DATA_PATH"])
    sets = []
    for path in paths:
        format = formats.get(Path(path).suffix) if os.path.isfile(path) else None
        where = (format,) if format else (path,)
        files = {"data_files": {"train": path}} if format else {}
        sets.append(load_dataset(*where, **files, split=split, streaming=True).select_columns(["text"]))
    if len(sets) == 1:
        return sets[0]
    return interleave_datasets(sets, probabilities=weights, seed=seed, stopping_strategy="all_exhausted")


class Reader:
    """What one of ``parts`` readers takes, and where it stands: every ``parts``-th document, in blocks."""

    def __init__(self, part, parts, seed, split="train"):
        self.part, self.parts, self.seed, self.split = part, parts, seed, split
        self.document, self.held = 0, []

    def state(self):
        """Return what another reader needs to go on from here."""
        return {"part": self.part, "parts": self.parts, "document": self.document, "held": self.held}

    def restore(self, state):
        """Go on from a state; under another number of readers, after the documents that it had passed."""
        self.document = state["document"]
        same = (state["part"], state["parts"]) == (self.part, self.parts)
        self.held = state["held"] if same else []

    def batches(self, micro_batch, device):
        """Yield inputs and next tokens, ``micro_batch`` sequences at a time."""
        blocks = self._blocks()
        while True:
            tokens = torch.tensor([next(blocks) for _ in range(micro_batch)], device=device)
            yield tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()

    def _blocks(self):
        from transformers import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(os.environ["TOKENIZER_PATH"])
        stream = documents(self.split, self.seed)
        while True:
            start, found = self.document, False
            for document in stream.skip(start):
                self.document += 1
                if (self.document - 1) % self.parts == self.part:
                    found = True
                    self.held += tokenizer(document["text"])["input_ids"] + [tokenizer.eos_token_id]
                while len(self.held) > SEQ_LEN:
                    block, self.held = self.held[: SEQ_LEN + 1], self.held[SEQ_LEN:]
                    yield block
            if not start and not found:
                sys.exit(f"DATA_PATH has fewer documents ({self.split}) than readers: {self.parts}.")
            self.document = 0


class Mock(Reader):
    """Made-up tokens in place of documents."""

    def _blocks(self):
        numbers = torch.Generator().manual_seed(self.seed + self.part)
        words = AutoConfig.from_pretrained(HERE).vocab_size
        while True:
            yield torch.randint(words, (SEQ_LEN + 1,), generator=numbers).tolist()


def reader_of(options, part, parts):
    """Return the reader of the training data, or of made-up tokens in a smoke run."""
    return (Mock if options.smoke else Reader)(part, parts, options.seed)


def examples(options, micro_batch, part, parts, device):
    """Return batches of the data set's own validation split, or None where there is none to evaluate on."""
    if not options.eval_steps or options.smoke:
        return None
    try:
        documents("validation", options.seed)
    except ValueError as error:
        if part == 0:
            print(f"no evaluation: {error}", flush=True)
        return None
    return Reader(part, parts, options.seed, "validation").batches(micro_batch, device)
'''
"""Reads folders, files or data sets with a ``text`` column; uses SEQ_LEN and HERE."""
