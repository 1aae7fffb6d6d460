"""Every example of README and docs prints what it says, and every local link leads somewhere."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from tests.cli.docs_blocks import blocks, documents, replay
from tests.helpers import ROOT

LINK = re.compile(r"\[[^\]]*\]\(<?([^)\s>]+)>?(?: \"[^\"]*\")?\)|^\[[^\]]+\]: (\S+)", re.MULTILINE)


def names(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", documents(), ids=names)
def test_examples_print_what_the_document_says(path: Path, tmp_path: Path) -> None:
    faults = replay(path.read_text(encoding="utf-8"), tmp_path).faults
    assert not faults, "run `make docs-update` and read the diff, or mend:\n\n" + "\n\n".join(faults)


def prose(text: str) -> str:
    """Return a Markdown text without its fenced blocks and inline code."""
    lines = text.splitlines()
    for block in blocks(text):
        for number in range(block.line - 1, min(block.line + len(block.lines) + 1, len(lines))):
            lines[number] = ""
    return re.sub(r"`[^`\n]*`", "code", "\n".join(lines))


def anchors(text: str) -> set[str]:
    """Return the names by which a link can point to a heading, as GitHub makes them."""
    headings = re.findall(r"^#+ +(.*?) *#*$", text, re.MULTILINE)
    slugs = [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]
    return set(slugs) | set(re.findall(r'<a (?:id|name)="([^"]+)"', text))


def broken_links(path: Path) -> list[str]:
    """Return the local links of a document that lead nowhere."""
    broken = []
    for link in (first or second for first, second in LINK.findall(prose(path.read_text(encoding="utf-8")))):
        if re.match(r"[a-z]+:", link):
            continue
        file, _, anchor = link.partition("#")
        target = path.parent / file if file else path
        headless = target.suffix != ".md" or not anchor
        if not target.exists() or not (headless or anchor in anchors(target.read_text(encoding="utf-8"))):
            broken.append(link)
    return broken


@pytest.mark.parametrize("path", documents(), ids=names)
def test_local_links_lead_somewhere(path: Path) -> None:
    assert broken_links(path) == []


def test_the_page_of_runtimes_is_current() -> None:
    spec = importlib.util.spec_from_file_location("make_techniques", ROOT / "docs" / "make_techniques.py")
    assert spec is not None
    assert spec.loader is not None
    maker = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(maker)
    known = maker.RUNTIMES_PAGE.read_text(encoding="utf-8")
    assert known == maker.runtimes_page(), "run `python docs/make_techniques.py` and read the diff"


def console(*lines: str, note: str = "") -> str:
    return "\n".join([note, "```console", *lines, "```", ""])


@pytest.mark.parametrize(
    "text",
    [
        console("$ printf 'one\\ntwo\\n'", "one", "two"),
        console("$ printf 'a\\nb\\nc\\n'", "a", "...", "c"),
        console("$ printf 'a\\nb\\nc\\n'", "..."),
        console("$ echo 1.25 s", "7.5 s", note="<!-- numbers vary -->"),
        console("$ echo '| 1,000 |  2e-6 |'", "|  12 | 3 |", note="<!-- numbers vary -->"),
        console("$ echo oops >&2; exit 3", "oops", note="<!-- exit 3 -->"),
        console("$ echo one \\", "    two", "one two"),
        console("$ echo one \\", "> two", "one two"),
        console("$ echo kept > file", "$ cat file", "kept"),
        console("$ pwd", "."),
        console("$ made up", note="<!-- not run: needs a cluster -->"),
        "<!-- file: a.yaml -->\n\n```yaml\nkey: 1\n```\n" + console("$ cat a.yaml", "key: 1"),
        "- in a list\n\n    ```console\n    $ echo deep\n    deep\n    ```\n",
        console("$ python -c 'print(6 * 7)'", "42"),
        "```python\nvalue = 3\n```\n\n```python\n>>> value + 1\n4\n\n```\n",
        "```sh\nmade up\n```\n".replace("```sh", "<!-- not run: needs a cluster -->\n```sh"),
    ],
)
def test_a_true_example_passes_and_is_left_as_it_is(text: str, tmp_path: Path) -> None:
    after = replay(text, tmp_path)
    assert after.faults == ()
    assert after.text == text


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (console("$ echo two", "one"), "+two"),
        (console("$ echo one", "one", "two"), "-two"),
        (console("$ true", "one"), "-one"),
        (console("$ echo one"), "+one"),
        (console("$ printf 'a\\nb\\n'", "a", "...", "c"), "+b"),
        (console("$ echo 3 s", "3 ms", note="<!-- numbers vary -->"), "+3 s"),
        (console("$ echo 3", "4"), "+3"),
        (console("$ exit 2"), "exit code 2, not 0"),
        (console("$ true", note="<!-- exit 1 -->"), "exit code 0, not 1"),
        (console("$ false", "$ true"), "exit code 1, not 0"),
        (console("echo one", "one"), "no line starts with a dollar sign"),
        ("```python\n>>> 1 + 1\n3\n\n```\n", "Got:\n    2"),
        ("```bash\nmade up\n```\n", "neither a console block"),
    ],
)
def test_a_false_example_is_found(text: str, fault: str, tmp_path: Path) -> None:
    (found,) = replay(text, tmp_path).faults
    assert fault in found


def test_a_failing_program_is_found(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        replay("```python\n1 / 0\n```\n", tmp_path)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            console("$ echo two", "one", "", "$ echo three"),
            console("$ echo two", "two", "$ echo three", "three"),
        ),
        (
            console("$ printf 'a\\nb\\nc\\nd\\n'", "x", "...", "y"),
            console("$ printf 'a\\nb\\nc\\nd\\n'", "a", "...", "d"),
        ),
        (console("$ printf 'a\\nb\\n'", "x", "..."), console("$ printf 'a\\nb\\n'", "a", "...")),
        (
            "1. x\n\n   ```console\n   $ echo a\n   b\n   ```\n",
            "1. x\n\n   ```console\n   $ echo a\n   a\n   ```\n",
        ),
    ],
)
def test_rewriting_shows_what_is_printed_today(before: str, after: str, tmp_path: Path) -> None:
    assert replay(before, tmp_path).text == after


def test_broken_links_are_found_and_good_ones_are_not(tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text("# A heading, with 2 words\n")
    page = tmp_path / "page.md"
    page.write_text(
        "# Top\n[a](other.md) [b](other.md#a-heading-with-2-words) [c](https://example.org/x) [d](#top)\n"
        "[e](missing.md) [f](other.md#nowhere) [g](#nowhere) `[h](code.md)`\n[i]: gone.md\n"
        "```\n[j](fenced.md)\n```\n"
    )
    assert broken_links(page) == ["missing.md", "other.md#nowhere", "#nowhere", "gone.md"]
