"""What a row's words must have for a statement to stand there is never missed."""

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from planner.calibrate.eras.literals import literals_of
from planner.calibrate.eras.statements import statements
from planner.calibrate.runs.table import read_runs
from tests.cases import every
from tests.helpers import ROOT

SAYS = sorted({entry.says for entry in statements().statements.values()})


@every(
    ("says", "texts"),
    [
        ("fsdp.?2|fully_shard", ("fsdp", "fully_shard")),
        (r"torch\.?compile( on)?\b(?! off)", ("compile",)),
        (r"ab{0,2}c|x*yz", ("a", "yz")),
        (r"v?2\.[01]\b", ("2.",)),
        (r"[]x]abc[^]]de", ("abc",)),
        (r"scope=\[[^]]*'attn'", ("scope=[",)),
        (r"\d+|fine", ("",)),
        (r"(a|b)", ("",)),
        (r"(?i)Adam", ("",)),
        ("", ("",)),
    ],
)
def test_each_alternative_gives_its_longest_plain_text(says: str, texts: tuple[str, ...]) -> None:
    assert literals_of(says) == texts


def test_statements_of_every_shipped_row_are_those_of_the_expressions_alone() -> None:
    known = statements()
    for path in sorted((ROOT / "tests" / "measured" / "runs").glob("*.csv")):
        with path.open(newline="") as lines:
            rows = [vars(row) for row in read_runs(lines).rows]
        names = ("model", "framework", "overlap", "notes")
        for text in {" | ".join(str(row.get(name, "")) for name in names).lower() for row in rows}:
            plain = [name for name, entry in known.statements.items() if re.search(entry.says, text)]
            assert list(known.found(text)) == plain, text


@every("says", [says for says in SAYS if "(?!" not in says and "(?<" not in says])
def test_whatever_an_expression_matches_has_one_of_its_texts(says: str) -> None:
    @settings(max_examples=5, deadline=None)
    @given(st.from_regex(says))
    def holds(text: str) -> None:
        assert any(one in text for one in literals_of(says))

    holds()
