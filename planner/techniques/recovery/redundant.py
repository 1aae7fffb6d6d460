"""Each stage also keeps the next one's weights and runs its forward pass, so that it can stand in for it."""

from collections.abc import Iterator

from planner.techniques.recovery._stages import stage_layouts, whole_stages
from planner.techniques.recovery.family import ENVIRONMENT, WATCHED, Held, Recovery

FORWARD = 1.0 / 3.0
"""Share of a step's arithmetic that is its forward pass, where nothing is run again. [-]"""


def _faults(held: Held) -> Iterator[str]:
    yield from whole_stages(held, 2)
    more = held.state_bytes
    if more > held.spare_bytes:
        has = held.spare_bytes / 2**30
        yield f"needs {more / 2**30:.1f} GiB more for the next stage, and {has:.1f} are left"


ENTRY = Recovery(
    name="redundant",
    cite="arXiv:2204.12013",
    level="neighbours",
    pause=WATCHED + ENVIRONMENT,
    faults=_faults,
    healthy=lambda held: held.step + FORWARD * held.compute,
    mode_note="each stage runs the forward pass of the next one too, none of it in bubbles",
    layouts=stage_layouts,
    runner=False,
    aliases=("bamboo",),
)
