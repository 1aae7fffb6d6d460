"""Ways in which a text or a tree breaks: bytes, lines, words and values."""

from __future__ import annotations

import csv
import io
import json
from random import Random
from typing import Any, Final

import yaml

VALUES: Final[tuple[Any, ...]] = (
    *(None, True, False, -1, 0, 1, 10**30, 1.5, -2.5, 1e308, 1e-320, float("nan"), float("inf"), "", "auto"),
    *(
        "${X}",
        "a" * 5000,
        [],
        [1, 2],
        {},
        {"a": 1},
        [[1]],
        "none",
        "\x00",
        "1_0",
        "--",
        "é",
        "q_proj,,",
        [None],
    ),
    *(
        "=1+1",
        "\x1b[31mred\x1b[0m",
        "../../etc/passwd",
        "/dev/null",
        "1e999",
        "0x10",
        "²",
        "٣",
        "1,024",
        "8x",
    ),
)
"""What stands in the place of a value."""

WORDS: Final = (
    *("", "-1", "0", "1", "3", "8", "1e9", "nan", "inf", "-inf", "1e308", "1" * 400, "0x8", "1_000", "8,16"),
    *(
        "1,2,3,,",
        "a=b",
        "=",
        "a=",
        "--",
        "-",
        "/dev/null",
        "nope",
        "é",
        "\x1b]0;x\x07",
        "1.5",
        "64k",
        "8x8",
        "²",
    ),
)
"""What stands in the place of an option's value."""

DEEPEST: Final = 3000


def broken_tree(tree: Any, dice: Random) -> Any:
    """Return a tree with one value, key or branch changed."""
    if isinstance(tree, dict) and tree:
        key = dice.choice(list(tree))
        copy = dict(tree)
        how = dice.random()
        if how < 0.55 and isinstance(copy[key], dict | list) and copy[key]:
            copy[key] = broken_tree(copy[key], dice)
        elif how < 0.70:
            del copy[key]
        elif how < 0.80:
            copy[f"{key}{dice.choice(('s', '_', ' ', 'é'))}"] = copy.pop(key)
        else:
            copy[key] = dice.choice(VALUES)
        return copy
    if isinstance(tree, list) and tree:
        place = dice.randrange(len(tree))
        changed = broken_tree(tree[place], dice) if dice.random() < 0.6 else dice.choice(VALUES)
        return [*tree[:place], changed, *tree[place + 1 :]]
    return dice.choice(VALUES)


def broken_text(text: str, dice: Random) -> bytes:
    """Return a text with bytes, lines or words changed."""
    how = dice.randrange(9)
    lines = text.split("\n")
    place = dice.randrange(max(1, len(text)))
    if how == 0:
        return text[:place].encode()
    if how == 1:
        return text[:place].encode() + bytes(dice.randrange(256) for _ in range(4)) + text[place:].encode()
    if how == 2:
        dice.shuffle(lines)
        return "\n".join(lines).encode()
    if how == 3:
        line = dice.choice(lines)
        return "\n".join([*lines, *[line] * dice.choice((1, 3, 2000))]).encode()
    if how == 4:
        words = text.split(" ")
        words[dice.randrange(len(words))] = str(dice.choice(VALUES))
        return " ".join(words).encode(errors="replace")
    if how == 5:
        return text.replace(dice.choice("0123456789:=,{}[]\"'\n"), dice.choice("0-:,{[\"'\t #"), 3).encode()
    if how == 6:
        return text.encode("utf-16")
    if how == 7:
        return (dice.choice("[{(") * DEEPEST + text).encode()
    return text.replace("\n", dice.choice(("\r\n", "\r", "\n\n", "\x00\n")), 50).encode()


def broken(text: str, name: str, dice: Random) -> bytes:
    """Return a file's text broken as a tree where it is one, or as text."""
    if dice.random() < 0.3:
        return broken_text(text, dice)
    try:
        if name.endswith(".json"):
            tree = json.loads(text)
        elif name.endswith((".yaml", ".yml")):
            tree = yaml.safe_load(text)
        elif name.endswith(".csv"):
            return _broken_table(text, dice)
        else:
            return broken_text(text, dice)
    except ValueError:
        return broken_text(text, dice)
    for _ in range(dice.randint(1, 3)):
        tree = broken_tree(tree, dice)
    dumped = json.dumps(tree) if name.endswith(".json") else yaml.safe_dump(tree, allow_unicode=True)
    return dumped.encode(errors="replace")


def _broken_table(text: str, dice: Random) -> bytes:
    """Return a table with some cells changed, in its header too."""
    rows = list(csv.reader(io.StringIO(text)))
    for _ in range(dice.randint(1, 4)):
        row = dice.choice(rows[:12])
        if row:
            row[dice.randrange(len(row))] = str(dice.choice(VALUES))[:200]
    out = io.StringIO()
    csv.writer(out).writerows(rows[: dice.choice((1, 2, 4))])
    return out.getvalue().encode(errors="replace")


def broken_words(words: list[str], dice: Random) -> list[str]:
    """Return the words of a command with options changed, left out, doubled or without their values."""
    changed = list(words)
    for _ in range(dice.randint(1, 3)):
        place = dice.randrange(1, len(changed))
        how = dice.random()
        if how < 0.6:
            changed[place] = dice.choice(WORDS).replace("\x00", "")
        elif how < 0.75 and len(changed) > 2:
            del changed[place]
        elif how < 0.9:
            changed.insert(place, dice.choice(changed[1:]))
        else:
            changed += [dice.choice(OPTIONS), dice.choice(WORDS)]
    return changed


OPTIONS: Final = (
    *("--gpus", "--tp", "--pp", "--vpp", "--cp", "--ep", "--dp", "--zero", "--micro-batch", "--global-batch"),
    *("--seq-len", "--precision", "--optimizer", "--recompute", "--offload", "--schedule", "--stage-layers"),
    *("--runtime", "--hardware", "--set", "--format", "--memory-limit", "--oom-risk", "--tokens", "--price"),
    *(
        "--method",
        "--lora-rank",
        "--top",
        "--objective",
        "--imbalance",
        "--from",
        "--save",
        "--out",
        "--allow",
    ),
)
