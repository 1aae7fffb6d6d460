"""Names that traits had: each value is that of a kind, wherever a user or a saved plan writes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.errors import InputError
from planner.question.reading import Reading
from planner.question.traits import trait_changes
from planner.runtimes.trait_values import is_allowed
from planner.runtimes.traits import TRAITS, trait_name
from planner.runtimes.traits.former import FORMER, kinds_instead
from tests.cases import every
from tests.cli.command import planner

GPT2 = ("estimate", "gpt2", "--hardware", "dgx-h100", "--gpus", "8", "--global-batch", "64")


def set_so(text: str) -> dict[str, object]:
    """Return what ``--set`` of a text changes."""
    reading = Reading()
    changes = trait_changes([text], reading)
    reading.finish()
    return changes


@every("name", FORMER)
def test_a_former_trait_is_the_kind_that_has_its_value(name: str) -> None:
    """Values that no kind has are faults that name those which do."""
    assert name not in TRAITS
    assert trait_name(name) == name
    for value, (trait, kind) in FORMER[name].items():
        assert is_allowed(trait, kind)
        assert set_so(f"{name}={str(value).lower()}") == set_so(f"{trait}={kind}") == {trait: kind}
        assert f"--set {trait}={kind} for {str(value).lower()}" in kinds_instead(name)
    with pytest.raises(InputError) as refused:
        set_so(f"{name}=maybe")
    assert kinds_instead(name) in str(refused.value)


def test_a_saved_plan_and_an_option_may_have_the_former_name(tmp_path: Path) -> None:
    now, then = (tmp_path / f"{name}.yaml" for name in ("now", "then"))
    for path, text in ((now, "loss=gathered"), (then, "gathered_logit_bytes=4 B")):
        assert planner(*GPT2, "--set", text, "--save", str(path)).code == 0
    assert now.read_text() == then.read_text()
    then.write_text(now.read_text().replace("loss: gathered", "gathered_logit_bytes: 4.0"))
    assert then.read_text() != now.read_text()
    assert planner("explain", str(then)).out == planner("explain", str(now)).out
    then.write_text(now.read_text().replace("loss: gathered", "gathered_logit_bytes: 5.0"))
    assert "gathered_logit_bytes" in planner("explain", str(then)).err
