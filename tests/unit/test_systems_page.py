"""The page of published systems: what it says can be typed, and its tests cite the papers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from planner.cli.commands import LazyCommands
from planner.registry import find
from planner.techniques.compress import COMPRESSIONS
from planner.techniques.context import CONTEXT_METHODS
from planner.techniques.engines import ENGINES
from planner.techniques.feedback import FEEDBACKS
from planner.techniques.methods import METHODS
from planner.techniques.offload import OFFLOADS
from planner.techniques.optimizers import OPTIMIZERS
from planner.techniques.recompute import RECOMPUTES
from planner.techniques.recovery import RECOVERIES
from planner.techniques.schedules import SCHEDULES
from planner.techniques.settings import SETTINGS
from planner.techniques.states import STATE_METHODS
from planner.techniques.sync import SYNCS
from tests.cases import every
from tests.helpers import ROOT

PAGE = (ROOT / "docs" / "reference" / "systems.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (.+?) \| (`.+`) \| (\d{4}\.\d{4,5}) \| `(\S+)` \|$", PAGE, re.MULTILINE)
TABLES: Mapping[str, Mapping[str, Any]] = {
    "--schedule": SCHEDULES, "--sync": SYNCS, "--compress": COMPRESSIONS, "--recovery": RECOVERIES,
    "--optimizer": OPTIMIZERS, "--method": METHODS, "--offload": OFFLOADS, "--recompute": RECOMPUTES,
    "--cp-method": CONTEXT_METHODS,
}  # fmt: skip


def test_every_row_is_read() -> None:
    assert len(ROWS) == len(re.findall(r"^\| .*`tests/", PAGE, re.MULTILINE)) > 60


@every(("system", "ask", "paper", "test"), ROWS, ids=[row[0] for row in ROWS])
def test_a_system_can_be_asked_for_and_its_test_cites_the_paper(
    system: str, ask: str, paper: str, test: str
) -> None:
    assert paper in (ROOT / test).read_text(encoding="utf-8"), f"{test} does not cite {paper}"
    for words in (piece.split() for piece in re.findall(r"`([^`]+)`", ask)):
        own = words[0] == "planner"
        known = options_of(words[1] if own else "search")
        for at, word in enumerate(words):
            if word.startswith("--"):
                assert word in known
                check_value(word, words[at + 1] if at + 1 < len(words) else "")


def options_of(command: str) -> set[str]:
    """Return the options of a command and of those below it."""
    found = LazyCommands()[command]
    inner = getattr(found, "commands", {"": found}).values()
    return {spelling for one in inner for option in one.params for spelling in option.opts}


def check_value(option: str, value: str) -> None:
    """Look up a technique, or the setting or trait that is set."""
    name, _, said = value.partition("=")
    if option == "--set" and name == "engine":
        find(ENGINES, said, option)
    elif option == "--set":
        find(SETTINGS, name, option)
    elif option in TABLES:
        base, _, beside = value.partition("+")
        find(TABLES[option], re.split("[:]", base)[0], option)
        if beside:
            find(FEEDBACKS if option == "--compress" else STATE_METHODS, beside, option)
