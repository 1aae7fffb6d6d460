"""Files of tools that are known and not read, so that a refusal says whose file it is and what to do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

Tree = Mapping[str, Any]
OPTIONS: Final = "MODEL with the options of a plan (--runtime, --tp, --zero, --micro-batch ...)"
INNER: Final = "the script or file that it starts"


def _has(*keys: str) -> Callable[[Tree], bool]:
    return lambda tree: set(keys) <= set(tree)


UNREAD: Final[tuple[tuple[str, str, Callable[[Tree], bool]], ...]] = (
    ("a verl .yaml", "planner rl, or " + OPTIONS, _has("actor_rollout_ref")),
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
