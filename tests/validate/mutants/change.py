"""One or two seeded changes of a launch file: of a value, of a name, or of what is there at all."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from tests.validate.mutants.files import LaunchFile, Value

Donors = Mapping[str, Sequence[Value]]
"""Names that other files of the runner have, with the values that they have there."""


def change(file: LaunchFile, dice: random.Random, donors: Donors) -> list[str]:
    """Change a file once or twice, and return what was changed, in words."""
    return [_once(file, dice, donors) for _ in range(dice.choice((1, 1, 2)))]


def _once(file: LaunchFile, dice: random.Random, donors: Donors) -> str:
    said = file.values()
    name = dice.choice(sorted(said))
    kind = dice.random()
    if kind < 0.08:
        file.drop(name)
        return f"without {name}"
    if kind < 0.14:
        file.drop(name)
        file.put(f"{name}s", said[name])
        return f"{name} is called {name}s"
    if kind < 0.34:
        name = dice.choice(sorted(donors))
    value = dice.choice(other_values(said.get(name), donors.get(name, ())))
    file.put(name, value)
    return (
        f"{name}: {value!r}, not {said[name]!r}" if name in said else f"{name}: {value!r}, not there before"
    )


def other_values(value: Value, seen: Sequence[Value]) -> list[Value]:
    """Return values that could stand in the place of one, many of them wrong."""
    others: list[Value] = [one for one in seen if one != value]
    plain: list[Value] = ["other", None, 0, -1]
    if isinstance(value, bool):
        plain = [not value, not value, "other", None]
    elif isinstance(value, int | float):
        plain = [value * 2, value * 3, value + 1, value - 1, value / 2, -value, 0, "other", None]
    elif isinstance(value, str):
        plain = ["other", value.upper(), "", None, 3, True]
    elif isinstance(value, list):
        plain = [value[1:], [*value, *value], [], "other", None]
    return [*plain, *others]
