"""A block of one's own as a short YAML of sums over named indices, whose splits are derived."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field

from planner.errors import InputError, Problem, nearest
from planner.inputs.bounded import is_file
from planner.inputs.build import build
from planner.inputs.record import Positive, Record
from planner.inputs.yaml_file import read_yaml

FORMAT: Final = "planner/block/1"

MOST: Final = 24
"""Operators of a block: beyond, the cheapest splits take too long to find. [-]"""

TOKENS: Final = ("t", "s", "k")
"""Indices that run over tokens; their sizes are not said."""


class Sum(Record):
    """One operator: its sum as NumPy writes it, and what it reads; one operand more is its weights.

    ``whole`` are indices along which its arithmetic cannot be cut, such as a norm's width.
    """

    name: str = Field(min_length=1, max_length=60)
    sum: str = Field(pattern=r"^[a-z]+(,[a-z]+)*->[a-z]+$", max_length=200)
    reads: tuple[str, ...] = Field(min_length=1, max_length=8)
    whole: str = Field(default="", pattern=r"^[a-z]*$", max_length=20)

    @property
    def operands(self) -> list[str]:
        """Indices of each operand."""
        return self.sum.split("->")[0].split(",")

    @property
    def writes(self) -> str:
        """Indices of the result."""
        return self.sum.split("->")[1]

    @property
    def weight(self) -> str:
        """Indices of the weights, empty without any."""
        return self.operands[-1] if len(self.operands) > len(self.reads) else ""


class OwnBlock(Record):
    """Operators in their order; ``x`` enters the block, and the last one's result leaves it."""

    format: Literal["planner/block/1"]
    name: str = Field(default="block", min_length=1, max_length=60)
    sizes: dict[str, Positive]
    operators: Annotated[tuple[Sum, ...], Field(min_length=1, max_length=MOST)]


def own_block(text: str) -> OwnBlock | None:
    """Return the block of a file that is one, or None of anything else.

    Raises `InputError` if it is one, and wrong: all faults at once.
    """
    path = Path(text)
    if path.suffix.lower() not in (".yaml", ".yml") or not is_file(path):
        return None
    raw = read_yaml(path)
    if raw.get("format") != FORMAT and not {"sizes", "operators"} <= raw.keys():
        return None
    found = build(OwnBlock, raw, text)
    if problems := _faults(found, text):
        raise InputError(problems)
    return found


def _faults(block: OwnBlock, where: str) -> list[Problem]:
    made, problems = {"x": ""}, []
    for one in block.operators:
        place = f"{where}: operators.{one.name}"
        if one.name in made:
            problems.append(Problem(place, "the name again", "a name of its own for each operator"))
        if len(one.operands) - len(one.reads) not in (0, 1):
            count = f"{len(one.operands)} operands and {len(one.reads)} tensors in reads"
            problems.append(Problem(f"{place}.sum", count, "an operand for each, and one more for weights"))
        for name, indices in zip(one.reads, one.operands, strict=False):
            if name not in made:
                problems.append(
                    Problem(f"{place}.reads", name, "x or an operator above", nearest(name, made))
                )
            elif made[name] and len(made[name]) != len(indices):
                expected = f"{len(made[name])} indices, as {name} writes {made[name]}"
                problems.append(Problem(f"{place}.sum", indices, expected))
        made[one.name] = one.writes
        unknown = sorted({*"".join(one.operands), *one.writes} - {*block.sizes, *TOKENS})
        if unknown:
            known = ", ".join([*TOKENS, *block.sizes])
            problems.append(Problem(f"{place}.sum", ", ".join(unknown), f"indices of {known}"))
    return problems
