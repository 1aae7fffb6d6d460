"""The value of each field, in its own type, from what stands at a door: read as the field's kind says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from planner.errors import nearest
from planner.fields import FIELDS, Field
from planner.inputs.lengths import read_lengths
from planner.inputs.workload import DTYPE_BYTES, TARGETS, adapted_groups
from planner.plan import prediction_stage
from planner.question.reading import Reading, parts_of, shown
from planner.techniques.context import CONTEXT_METHODS
from planner.techniques.context.family import read_method
from planner.techniques.offload import OFFLOADS
from planner.techniques.offload.family import read_offload
from planner.techniques.recompute import RECOMPUTES
from planner.techniques.recompute.family import read_choice
from planner.units import is_whole


def read_value(name: str, given: Any, reading: Reading) -> Any:
    """Return what a field's value is, in the field's own type; None where it is not given or wrong."""
    field = FIELDS[name]
    return None if given is None else KINDS[field.kind](reading, field, given)


def read_values(names: Iterable[str], given: Mapping[str, Any], reading: Reading) -> dict[str, Any]:
    """Return the values of some fields, by their names; None for what is not given or wrong."""
    return {name: read_value(name, given.get(name), reading) for name in names}


def _name(reading: Reading, field: Field, given: Any) -> str | None:
    """Return the name that the table has for what is given."""
    table: Any = field.names()
    entry: Any = reading.named(field.name, given, table)
    return None if entry is None else str(entry.name)


def _context(reading: Reading, field: Field, given: Any) -> str | None:
    """Return the name of a method of context parallelism, with the size of its mesh."""
    found = reading.attempt(read_method, CONTEXT_METHODS, str(given), reading.place(field.name))
    return None if found is None else found.name


def _switch(reading: Reading, field: Field, given: Any) -> bool | None:
    """Return whether it is on."""
    if isinstance(given, bool) or given in ("true", "false"):
        return given in (True, "true")
    reading.fault(field.name, repr(given), reading.door.truth)
    return None


def _recompute(reading: Reading, field: Field, given: Any) -> str | None:
    """Return a choice of recompute with its name as the contract spells it."""
    text = given.strip() if isinstance(given, str) else str(given)
    place = reading.place(field.name)
    if reading.attempt(read_choice, dict(RECOMPUTES), text, place) is None:
        return None
    word, colon, argument = text.partition(":")
    entry = next(entry for entry in RECOMPUTES.values() if word in (entry.name, *entry.aliases))
    return f"{entry.name}{colon}{argument}"


def _offload(reading: Reading, field: Field, given: Any) -> str | None:
    """Return what lives on the host as the contract spells it; a search picks a number that is left out."""
    text = given.strip() if isinstance(given, str) else str(given)
    word, colon, _ = text.partition(":")
    entry = reading.named(field.name, word, OFFLOADS)
    if entry is None or (entry.counted and not colon):
        return entry.name if entry else None
    chosen = reading.attempt(read_offload, OFFLOADS, text, reading.place(field.name))
    return chosen.spelled if chosen else None


def _lengths(reading: Reading, field: Field, given: Any) -> str | None:
    """Return the source of lengths in its one spelling."""
    return reading.attempt(read_lengths, str(given), reading.place(field.name))


def _targets(reading: Reading, field: Field, given: Any) -> tuple[str, ...] | None:
    """Return the groups of linear layers that have adapters, or None where all have."""
    try:
        return adapted_groups(given) or None
    except ValueError:
        known = [name for names in TARGETS.values() for name in names]
        near = nearest(given, (*TARGETS, *known))
        reading.fault(field.name, shown(given), f"some of {', '.join(TARGETS)}", near)
        return None


def _split(reading: Reading, field: Field, given: Any) -> tuple[int, ...] | None:
    """Return the layers of each stage, without the mark of prediction layers."""
    words = [word.strip() if isinstance(word, str) else word for word in parts_of(given)]
    marked = [place for place, word in enumerate(words) if _is_marked(word)]
    words = [word.rstrip("mM") if isinstance(word, str) else word for word in words]
    split = reading.whole_list(field.name, words if marked else given)
    if split is None or not marked:
        return split
    places = (prediction_stage(split, True), prediction_stage(split, True, True))
    if len(marked) > 1 or marked[0] not in places:
        expected = "prediction layers (m) in the last stage, or in the one before where the last has 0 layers"
        reading.fault(field.name, repr(given), expected)
        return None
    return split


def _is_marked(word: object) -> bool:
    return isinstance(word, str) and word[-1:] in ("m", "M") and is_whole(word[:-1])


def marks_apart(given: Any, split: tuple[int, ...]) -> bool:
    """Whether a split that was read marks prediction layers before a loss alone."""
    words = [word.strip() if isinstance(word, str) else word for word in parts_of(given)]
    marked = [place for place, word in enumerate(words) if _is_marked(word)]
    return bool(marked) and marked[0] != prediction_stage(split, True)


KINDS: Final[Mapping[str, Callable[[Reading, Field, Any], Any]]] = {
    "amount": lambda reading, field, given: reading.amount(
        field.name, given, binary=field.name == "global_batch_tokens"
    ),
    "context": _context,
    "count": lambda reading, field, given: reading.count(
        field.name, given, int(field.least), int(field.most)
    ),
    "counts": lambda reading, field, given: reading.counts(field.name, given),
    "dtype": lambda reading, field, given: reading.word(field.name, given, tuple(DTYPE_BYTES)),
    "length": lambda reading, field, given: reading.length(field.name, given, int(field.most)),
    "lengths": _lengths,
    "memory": lambda reading, field, given: reading.memory(field.name, given),
    "name": _name,
    "number": lambda reading, field, given: reading.number(field.name, given, field.least),
    "offload": _offload,
    "recompute": _recompute,
    "split": _split,
    "switch": _switch,
    "targets": _targets,
}
"""How a value of each kind is read."""
