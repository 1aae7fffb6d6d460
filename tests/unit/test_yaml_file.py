"""YAML and JSON from others: what is read, and what is refused with its place."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from pydantic import Field

from planner.errors import InputError
from planner.inputs.bounded import TEXT_BYTES
from planner.inputs.build import build
from planner.inputs.record import Bytes, Count, Flag, Positive, Record
from planner.inputs.yaml_file import parse_yaml, read_json, read_yaml
from tests.cases import every

BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


def fault(text: str) -> str:
    with pytest.raises(InputError) as caught:
        parse_yaml(text, "file.yaml")
    return str(caught.value)


def test_scalars_are_those_of_yaml_1_2() -> None:
    read = parse_yaml(
        "a: 1e9\nb: no\nc: 2026-02-30\nd: 010\ne: 1:30\nf: .5\ng: ~\nh:\ni: 0x1F\nj: True\n<<: k\n", "f"
    )
    assert read == {
        "a": 1e9,
        "b": "no",
        "c": "2026-02-30",
        "d": 10,
        "e": "1:30",
        "f": 0.5,
        "g": None,
        "h": None,
        "i": 31,
        "j": True,
        "<<": "k",
    }


@every(
    ("text", "place", "words"),
    [
        ("a: 1\na: 2\n", "file.yaml:2", "key 'a' twice"),
        ("x: {b: 1, b: 1}\n", "file.yaml:1", "key 'b' twice"),
        ("a:\n\tb: 1\n", "file.yaml:2", "a tab in the indentation"),
        ("a: [1\n", "file.yaml:2", "no YAML"),
        ("- 1\n", "file.yaml", "a list"),
        ("", "file.yaml", "nothing"),
        ("a: .nan\n", "file.yaml: a", "nan"),
        ("a: {b: [1, 1e999]}\n", "file.yaml: a.b[1]", "inf"),
        ("a: !!python/object:os.system x\n", "file.yaml:1", "tag"),
        (f"a: {'[' * 200}\n", "file.yaml:1", "levels"),
        ("a: &a [*a]\n", "file.yaml:1", "inside itself"),
        ("a: *b\n", "file.yaml:1", "undefined alias"),
        ("a: 1\n---\nb: 1\n", "file.yaml:2", "a second document"),
        ("[1]: 2\n", "file.yaml:1", "unhashable key"),
        (f"a: {'1' * 5000}\n", "file.yaml", "digits"),
        ("a: \0\n", "file.yaml", "unacceptable character"),
        (BOMB, "file.yaml:6", "once expanded"),
    ],
)
def test_a_fault_names_its_place(text: str, place: str, words: str) -> None:
    message = fault(text)
    assert message.startswith(f"{place}: found")
    assert words in message


def test_all_repeated_keys_are_told_at_once() -> None:
    assert len(fault("a: 1\na: 2\nb: 1\nb: 2\n").splitlines()) == 2


def test_a_bomb_is_refused_before_it_is_built() -> None:
    start = time.process_time()
    fault(BOMB)
    assert time.process_time() - start < 1


def test_aliases_in_moderation_are_read() -> None:
    assert parse_yaml("a: &x [1, 2]\nb: *x\n", "f") == {"a": [1, 2], "b": [1, 2]}


def test_a_large_file_is_not_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "large.yaml"
    with path.open("wb") as stream:
        stream.truncate(100_000_000)
    with pytest.raises(InputError, match=f"more than {TEXT_BYTES:,} bytes"):
        read_yaml(path)


@every(("name", "words"), [("absent.yaml", "no such file"), (".", "a folder"), ("latin.yaml", "0xe9")])
def test_what_cannot_be_read_is_said(tmp_path: Path, name: str, words: str) -> None:
    (tmp_path / "latin.yaml").write_bytes(b"a: 1\nb: two\xe9\n")
    with pytest.raises(InputError, match=words):
        read_yaml(tmp_path / name)


@every(
    ("text", "words"),
    [
        ("{", "json:1: found no JSON"),
        ('{"a": 1,\n"a": 2}', "key 'a' twice"),
        ("[]", "a list"),
        ("[" * 100_000, "nesting without end"),
        ('{"a": ' + "1" * 5000 + "}", "digits"),
    ],
)
def test_broken_json_is_said(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(InputError, match=words):
        read_json(path)


class Inner(Record):
    size: Positive
    room: Bytes | None = None


class Outer(Record):
    name: str
    parts: dict[str, Inner] = Field(default_factory=dict)
    listed: tuple[Inner, ...] = ()
    spare: Count = 0
    good: Flag = False


def build_faults(raw: object) -> list[str]:
    with pytest.raises(InputError) as caught:
        build(Outer, raw, "o.yaml")
    return [str(problem) for problem in caught.value.problems]


def test_a_sound_mapping_becomes_a_record_with_units_and_sources() -> None:
    raw = {"name": "x", "parts": {"p": {"size": 3, "room": {"value": "2 GiB", "source": "s"}}}, "spare": 4.0}
    record = build(Outer, raw, "o.yaml", {"s": "https://example.org"})
    assert record.spare == 4
    assert record.parts["p"].room == 2**31
    assert record.parts["p"].room.source == "https://example.org"


def test_every_fault_is_told_with_its_path() -> None:
    raw = {
        "nme": "x",
        "parts": {"p": {"size": 0, "room": "80"}, "q": 5},
        "listed": [{"size": "12"}, {"sze": True}],
        "spare": True,
        "good": "yes",
    }
    faults = build_faults(raw)
    wanted = {
        "o.yaml: name: found nothing; expected a value",
        "o.yaml: parts.p.size: found 0; expected more than 0",
        "o.yaml: listed[0].size: found '12'; expected a whole number, without quotes",
        "o.yaml: listed[1].size: found nothing; expected a value",
        "o.yaml: listed[1].sze: found unknown key; expected one of room, size; nearest: size",
        "o.yaml: spare: found True; expected a whole number, without quotes",
        "o.yaml: good: found 'yes'; expected true or false",
        "o.yaml: parts.q: found 5; expected a mapping",
        "o.yaml: nme: found unknown key; expected one of good, listed, name, parts, spare; nearest: name",
    }
    assert wanted <= set(faults)
    assert len(faults) == len(wanted) + 1
    assert any(
        line.startswith("o.yaml: parts.p.room: found '80'; expected no unit; accepted: B") for line in faults
    )


@every("room", ["-1 GiB", "1e999 B", "1e308 PB", {"value": "1 B", "standing": "hearsay"}, {"val": 1}])
def test_a_quantity_is_finite_not_negative_and_of_known_standing(room: object) -> None:
    assert build_faults({"name": "x", "parts": {"p": {"size": 1, "room": room}}})
