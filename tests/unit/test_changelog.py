"""A release folds the fragments of changelog.d: their names and kinds are those that it knows."""

from __future__ import annotations

import re
import tomllib

from tests.helpers import ROOT


def test_every_fragment_has_a_known_kind_and_one_sentence() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["towncrier"]
    kinds = "|".join(kind["directory"] for kind in settings["type"])
    for path in (ROOT / "changelog.d").iterdir():
        if path.name == "template.md":
            continue
        assert re.fullmatch(rf"[a-z0-9-]+\.({kinds})\.md", path.name), f"rename {path.name}"
        assert re.fullmatch(r"[A-Z`].*[.]\n", path.read_text(encoding="utf-8"), re.DOTALL), path.name
