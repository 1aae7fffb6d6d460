"""Clusters as people name them: an accelerator stands for its usual cluster, a number before it for a count.

The table from an accelerator's words to its cluster is the accelerators' own files: their names, aliases
and what they say under ``cluster``.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, NamedTuple

from planner.inputs.shipped import by_words, data_folder, named_file

SILENT: Final = frozenset({"nvidia", "amd", "intel", "google", "aws", "geforce", "tesla", "gpu", "gpus", ""})
"""Words of a product's name that tell no accelerators apart."""

_COUNTED = re.compile(r"(?P<n>\d{1,6})\s*[x×*]\s*(?P<what>.+)|(?P<what2>.+?)\s*[x×*:]\s*(?P<n2>\d{1,6})")
_SIZE = re.compile(r"(\d)[\s_-]*gi?b?\b")

Words = frozenset[str]


class Spoken(NamedTuple):
    """What a cluster was called: an accelerator, and how many of them where that was said."""

    accelerator: str
    gpus: int | None


def words_of(text: str) -> Words:
    """Return the words of an accelerator's name in which it differs from others.

    Examples
    --------
    >>> sorted(words_of("NVIDIA A100 SXM4 40 GB")) == sorted(words_of("a100-sxm4-40gb"))
    True
    """
    plain = _SIZE.sub(r"\1gb", text.strip().lower())
    return frozenset(re.split(r"[\s_/-]+", plain)) - SILENT


def spoken_accelerator(text: str) -> str:
    """Return the name of the accelerator that ships under these words; empty where none or several do."""
    found = by_words(data_folder("hardware_profiles") / "accelerators", words_of).get(
        words_of(text), frozenset()
    )
    return next(iter(found)).stem if len(found) == 1 else ""


def spoken_cluster(text: str) -> Spoken | None:
    """Return what a name means that is no cluster's own; None where it names no accelerator.

    Examples
    --------
    >>> spoken_cluster("8x H100 SXM"), spoken_cluster("RTX4090")
    (Spoken(accelerator='h100-80gb-sxm', gpus=8), Spoken(accelerator='rtx-4090', gpus=None))
    >>> spoken_cluster("H100:8")
    Spoken(accelerator='h100-80gb-sxm', gpus=8)
    """
    if _is_cluster(text):
        return None
    whole = spoken_accelerator(text)
    if whole:
        return Spoken(whole, None)
    match = _COUNTED.fullmatch(text.strip().lower())
    if match is None:
        return None
    name = spoken_accelerator(match["what"] or match["what2"])
    return Spoken(name, int(match["n"] or match["n2"])) if name else None


def _is_cluster(text: str) -> bool:
    """Whether a text is the name of a shipped cluster, or a path."""
    if named_file(text, data_folder("hardware_profiles")) is not None:
        return True
    try:
        return Path(text).expanduser().exists()
    except (OSError, RuntimeError, ValueError):
        return False
