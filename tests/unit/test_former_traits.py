"""Names that traits had: each value is that of a kind, wherever a user or a saved plan writes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.runtimes.trait_values import is_allowed
from planner.runtimes.traits import TRAITS
from planner.runtimes.traits.former import FORMER
from tests.cli.command import planner

GPT2 = ("estimate", "gpt2", "--hardware", "dgx-h100", "--gpus", "8", "--global-batch", "64")


@pytest.mark.parametrize("name", FORMER)
def test_a_former_trait_is_the_kind_that_has_its_value(name: str, tmp_path: Path) -> None:
    """Values that no kind has are faults that name those which do; saved plans are read alike."""
    assert name not in TRAITS
    assert all(is_allowed(trait, kind) for trait, kind in FORMER[name].values())
    saved = tmp_path / "plan.yaml"
    for value, (trait, kind) in FORMER[name].items():
        told = [
            planner(*GPT2, "--set", words, "--format", "json").out
            for words in (f"{name}={str(value).lower()}", f"{trait}={kind}")
        ]
        assert told[0] == told[1]
        planner(*GPT2, "--set", f"{trait}={kind}", "--save", str(saved), "--force")
        if f"{trait}: {kind}" in saved.read_text():
            old = tmp_path / "old.yaml"
            old.write_text(saved.read_text().replace(f"{trait}: {kind}", f"{name}: {str(value).lower()}"))
            assert planner("explain", str(old)).out == planner("explain", str(saved)).out
        wrong = planner(*GPT2, "--set", f"{name}=maybe")
        assert (wrong.code, f"--set {trait}={kind}" in wrong.err) == (2, True)
