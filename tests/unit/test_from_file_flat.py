"""Which FSDP a file asks for: the first keeps its root gathered, and needs more memory."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.command import planner_in

ACCELERATE = """\
distributed_type: FSDP
fsdp_config: {{{version}fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP, fsdp_sharding_strategy: FULL_SHARD}}
mixed_precision: bf16
num_machines: 1
num_processes: 8
"""
TRAINER = """\
model_name_or_path: meta-llama/Meta-Llama-3-8B
per_device_train_batch_size: 1
max_length: 4096
bf16: true
fsdp: full_shard auto_wrap
fsdp_config: {{{version}transformer_layer_cls_to_wrap: LlamaDecoderLayer}}
"""


def gib(folder: Path, text: str, *words: str) -> float:
    """Return the memory of a file's job on eight accelerators."""
    (folder / "file.yaml").write_text(text, encoding="utf-8")
    options = ("--hardware", "dgx-h100", "--gpus", "8", "--global-batch", "8", "--seq-len", "4096")
    answer = planner_in(folder, "estimate", *words, "--from", "file.yaml", *options, "--format", "json")
    return float(json.loads(answer.out)["memory"]["peak_gib"])


@pytest.mark.parametrize(
    ("text", "words", "first", "second"),
    [
        (ACCELERATE, ("llama3-8b",), ("", "fsdp_version: 1, "), "fsdp_version: 2, "),
        (TRAINER, (), ("version: 1, ",), "version: 2, "),
    ],
)
def test_the_first_fsdp_is_priced_as_itself(
    text: str, words: tuple[str, ...], first: tuple[str, ...], second: str, tmp_path: Path
) -> None:
    """Accelerate runs FSDP 1 where no version is said. 128,256 x 4,096 are gathered once more, in 16 bit."""
    later = gib(tmp_path, text.format(version=second), *words)
    for version in first:
        assert gib(tmp_path, text.format(version=version), *words) > later + 0.5
