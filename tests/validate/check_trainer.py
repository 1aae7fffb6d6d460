"""Parse arguments with transformers' own parser; run by an interpreter that has transformers.

Takes lines of JSON on stdin, each a list of arguments, and answers each with what the parser makes of those
that decide time and memory. The result is not made into `TrainingArguments`, which would look for devices.
"""

from answering import answer_lines
from transformers import HfArgumentParser, TrainingArguments

NAMES = (
    "per_device_train_batch_size",
    "gradient_accumulation_steps",
    "gradient_checkpointing",
    "bf16",
    "fp16",
    "optim",
    "deepspeed",
    "fsdp",
)


def derive(arguments):
    """Return the values of `NAMES`."""
    parsed, _ = HfArgumentParser(TrainingArguments).parse_known_args(["--output_dir", "out", *arguments])
    found = vars(parsed)
    return {name: None if found.get(name) is None else str(found[name]) for name in NAMES}


if __name__ == "__main__":
    answer_lines(derive)
