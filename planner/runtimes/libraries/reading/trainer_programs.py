"""Commands that start Hugging Face's Trainer, by whichever library."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Final

COMMANDS: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "llamafactory-cli": ("llama-factory", ("train",)),
    "lmf": ("llama-factory", ("train",)),
    "axolotl": ("axolotl", ("train",)),
    "trl": ("trl", ("sft", "dpo", "grpo", "kto", "orpo", "reward", "rloo")),
    "swift": ("swift", ("sft", "pt", "rlhf")),
    "megatron": ("swift", ("sft", "pt", "rlhf")),
    "xtuner": ("xtuner", ("train",)),
    "tune": ("torchtune", ("run",)),
    "litgpt": ("litgpt", ("finetune", "finetune_full", "finetune_lora", "pretrain")),
}
"""Program to the library that it is of, and those of its commands that train."""

MODULES: Final[Mapping[str, str]] = {
    "axolotl.cli.train": "axolotl",
    "swift.cli.sft": "swift",
    "swift.cli.pt": "swift",
    "swift.cli.rlhf": "swift",
    "swift/cli/sft.py": "swift",
    "swift.cli._megatron.sft": "swift",
    "swift.cli._megatron.pt": "swift",
    "llamafactory.launcher": "llama-factory",
    "llamafactory.train.tuner": "llama-factory",
    "verl.trainer.fsdp_sft_trainer": "verl-sft",
    "verl.trainer.sft_trainer": "verl-sft",
    "openrlhf.cli.train_sft": "openrlhf-sft",
}
"""Modules and scripts that do the same."""

LAUNCHES: Final = (("accelerate", "launch"), ("-m", "accelerate.commands.launch"))
"""Words of a launcher, which another program may start: what follows the last of them trains."""

TRAINED: Final = ("--per_device_train_batch_size", "--per-device-train-batch-size")
MODELS: Final = (
    *("--model_name_or_path", "--model-name-or-path", "--model_name", "--model_id", "--model_id_or_path"),
    *("--model_path", "--model_dir", "--base_model", "--model", "--pretrained_model_name_or_path"),
)
"""What scripts of the Trainer call the weights that they start from."""
LASTS: Final = ("--num_train_epochs", "--max_steps", "--num-train-epochs", "--max-steps")
"""What the Trainer calls how long it trains; a script with them may name its model itself."""

_TUNED: Final = re.compile(r"finetune|qat|distillation|dpo|ppo|grpo")
"""Of the recipes that ``tune run`` starts those that train."""
_YAML: Final = re.compile(r"[^=]*\.(?:ya?ml|json)")
_RECIPE: Final = re.compile(r"--config(?:=.*)?|-c")


def place(words: tuple[str, ...]) -> int | None:
    """Return where the program stands among the words of a command, None if it is none of these."""
    if (neox := next((at for at, word in enumerate(words) if word.endswith("deepy.py")), None)) is not None:
        return neox if "train.py" in words[neox + 1 :] else None
    for at, word in enumerate(words):
        name = word.rpartition("/")[2]
        known = COMMANDS.get(name)
        trains = name != "tune" or any(map(_TUNED.search, words[at + 2 :]))
        if trains and known is not None and at + 1 < len(words) and words[at + 1] in known[1]:
            return at + 1
        if name == "automodel" and any(_YAML.fullmatch(other) for other in words[at + 1 : at + 5]):
            return at
        if word in MODULES or any(word.endswith(f"/{module}") for module in MODULES if "/" in module):
            return at
    inner = max((at for at, pair in enumerate(pairwise(words)) if pair in LAUNCHES), default=0)
    return next((at for at, word in enumerate(words) if at >= inner and _script(words, at, word)), None)


def _script(words: tuple[str, ...], at: int, word: str) -> bool:
    """Return whether a word is a script that is given the Trainer's arguments, or a file of them."""
    module = at > 0 and words[at - 1] == "-m" and words[at - 2] not in ("python", "python3")
    launcher = word.startswith(("torch.distributed", "accelerate.commands"))
    if launcher or not (word.endswith(".py") or (at > 0 and words[at - 1] == "-m")):
        return False
    after = words[at + 1 :]
    if _has(after, TRAINED) and _has(after, (*MODELS, *LASTS)):
        return True
    own = not _has(after, ("--deepspeed_config", "--job.config_file"))
    named = bool(after) and bool(_YAML.fullmatch(after[0])) and not after[0].startswith("-")
    recipe = any(
        _RECIPE.fullmatch(flag) and _YAML.search(" ".join(after[n : n + 2])) for n, flag in enumerate(after)
    )
    return (own and (named or recipe)) and (word.endswith(".py") or module)


def _has(words: tuple[str, ...], flags: tuple[str, ...]) -> bool:
    return any(word.partition("=")[0] in flags for word in words)


def kind(
    words: tuple[str, ...], at: int, before: Mapping[str, str], flags: Mapping[str, str]
) -> tuple[str, str | None]:
    """Return the library of a command; the file that it names is read with its arguments."""
    word = words[at]
    if at > 0 and words[at - 1].rpartition("/")[2] in COMMANDS:
        return COMMANDS[words[at - 1].rpartition("/")[2]][0], None
    named = {"automodel": "automodel", "deepy.py": "gpt-neox"}.get(word.rpartition("/")[2])
    if named is not None:
        return named, None
    known = next((library for module, library in MODULES.items() if word.endswith(module)), None)
    return known or "hf-trainer", None
