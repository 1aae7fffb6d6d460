"""Files and commands of tools that are known and not read: a refusal says whose they are and what to do."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from planner.errors import InputError, Problem

Tree = Mapping[str, Any]
OPTIONS: Final = "MODEL with the options of a plan (--runtime, --tp, --zero, --micro-batch ...)"
INNER: Final = "the script or file that it starts"


def _has(*keys: str) -> Callable[[Tree], bool]:
    return lambda tree: set(keys) <= set(tree)


def is_olmo(tree: Tree) -> bool:
    """Return whether a file has the model of an OLMo, whose other keys llm-foundry has too."""
    model = tree.get("model")
    shape = set(model) if isinstance(model, Mapping) else set()
    return "name" not in shape and {"d_model", "n_layers", "block_type"} <= shape


UNREAD: Final[tuple[tuple[str, str, Callable[[Tree], bool]], ...]] = (
    ("a verl .yaml", "planner rl, or " + OPTIONS, _has("actor_rollout_ref")),
    ("a NeMo-RL .yaml", "planner rl, or " + OPTIONS, _has("policy", "cluster")),
    ("an OLMo .yaml", OPTIONS, is_olmo),
    ("a MaxText .yml", OPTIONS, _has("base_emb_dim")),
    ("a MaxText .yml", OPTIONS, _has("per_device_batch_size", "max_target_length")),
    ("a dolomite-engine .yml", OPTIONS, _has("model_args", "training_parameters")),
    ("a SageMaker HyperPod recipe", OPTIONS, _has("display_name", "instance_types")),
    ("a manifest for Kubernetes", INNER, _has("apiVersion", "kind")),
    ("an Azure ML job", INNER, lambda tree: "azuremlschemas" in str(tree.get("$schema"))),
    ("a SkyPilot task", INNER, lambda tree: {"resources", "run"} <= set(tree) and "model" not in tree),
    ("a ColossalAI .yaml", OPTIONS, _has("plugin", "booster")),
    ("a GPT-NeoX file of settings alone", "the file with the model's sizes", _has("data_path", "vocab_file")),
    (
        "an FSDP 2 .yaml of MindSpeed-LLM",
        OPTIONS,
        lambda tree: isinstance(tree.get("parallel"), Mapping) and "fsdp_size" in tree["parallel"],
    ),
)
"""What each is called, what to give in its place, and whether a file is one; asked in this order."""


def unread(tree: Tree) -> tuple[str, str] | None:
    """Return what a file of a known tool that is not read is called, and what to give in its place.

    Examples
    --------
    >>> unread({"apiVersion": "v1", "kind": "Job"})
    ('a manifest for Kubernetes', 'the script or file that it starts')
    >>> unread({"lr": 1})
    """
    return next(((title, instead) for title, instead, fits in UNREAD if fits(tree)), None)


REWARDS: Final = "planner rl, or " + OPTIONS
UNREAD_PROGRAMS: Final[tuple[tuple[str, str, re.Pattern[str]], ...]] = (
    (
        "verl",
        REWARDS,
        re.compile(r"(?:verl|recipe)\.[\w.]*main\w*|verl\.experimental\..*"),
    ),
    ("OpenRLHF", REWARDS, re.compile(r"openrlhf\.cli\.train_(?!sft)\w+")),
    ("slime", REWARDS, re.compile(r"--actor-num-(?:nodes|gpus-per-node)(?:=.*)?")),
    ("MaxText", OPTIONS, re.compile(r"(?:MaxText|maxtext)\.[\w.]*train\w*|(?:.*/)?MaxText/train\w*\.py")),
    ("dolomite-engine", OPTIONS, re.compile(r"(?:lm_engine|dolomite_engine)\.(?:pretrain|finetune|distill)")),
    (
        "NeMo-Aligner",
        "the YAML that it is given, where it has the model's sizes; or " + OPTIONS,
        re.compile(
            r"(?:.*/)?train_(?:gpt_(?:sft|dpo|kto|rs|ppo|spin|reinforce|knowledge)\w*|reward_model)\.py"
        ),
    ),
    ("MindSpeed-MM", OPTIONS, re.compile(r"--mm-(?:model|data)(?:=.*)?")),
    ("ColossalAI", OPTIONS, re.compile(r"(?:.*/)?colossalai")),
)
"""Programs that are known and not read: whose each is, what to give in its place, and its word."""


def unread_program(words: Iterable[str]) -> tuple[str, str] | None:
    """Return whose program the words of a command start, and what to give in its place; None if unknown.

    Examples
    --------
    >>> unread_program(["python3", "-m", "verl.trainer.main_ppo"])[0]
    'verl'
    >>> unread_program(["python3", "train.py"])
    """
    known = (
        (title, instead)
        for word in words
        for title, instead, pattern in UNREAD_PROGRAMS
        if pattern.fullmatch(word)
    )
    return next(known, None)


OTHER_MODELS: Final = re.compile(r"(?:.*/)?(?:pretrain|finetune|train)_(?:bert|t5|vision|vlm|ict)\w*\.py")
"""Megatron-LM's programs for other than language models."""


def check_language(word: str, where: str) -> None:
    """Refuse one of Megatron-LM's programs for other than language models.

    Raises `InputError` if the word is one.
    """
    if OTHER_MODELS.fullmatch(word):
        expected = "a program that trains a language model, such as pretrain_gpt.py"
        raise InputError(Problem(where, word.rpartition("/")[2], expected))


def check_program(words: Iterable[str], where: str) -> None:
    """Refuse a command of a tool that is known and not read, by its name.

    Raises `InputError` if it is one.
    """
    other = unread_program(words)
    if other is not None:
        raise InputError(Problem(where, f"a command of {other[0]}, which is not read", other[1]))


_OTHERWISE: Final = re.compile(
    r"(?:.*/)?(?:\w*_)?(?:eval\w*|infer\w*|generate\w*|convert\w*|merge\w*|export\w*|serve\w*|predict\w*)(?:_\w+)?\.py"
)
_TRAINS: Final = re.compile(r"train|tune|sft|learn")


def trains_nothing(word: str) -> bool:
    """Return whether a program evaluates, converts or serves by its name.

    Examples
    --------
    >>> [trains_nothing(f"tools/{name}.py") for name in ("evaluate", "convert_to_hf", "train_eval", "sft")]
    [True, True, False, False]
    """
    name = word.rpartition("/")[2]
    return _OTHERWISE.fullmatch(word) is not None and _TRAINS.search(name) is None
