"""Settings in a plan file: those that are not as the runtime has them, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from planner.cost.settings import changed_settings
from planner.runtimes.family import Job, Runtime
from planner.runtimes.traits import Traits
from planner.techniques.settings import SETTINGS


def settings_said(job: Job, runtime: Runtime, plain: Traits) -> tuple[dict[str, str], set[str]]:
    """Return the settings whose values are not those of the plain traits, and the traits that they decide."""
    said = changed_settings(job, runtime, plain)
    return said, {trait for name, value in said.items() for trait in SETTINGS[name].values[value]}


def traits_with(plain: Traits, settings: Mapping[str, str], fault: Callable[[str, str, str], None]) -> Traits:
    """Return traits with settings; ``fault`` is told where one is unknown, what was found and is expected."""
    for name, value in settings.items():
        values = SETTINGS[name].values if name in SETTINGS else {}
        if value in values:
            plain = plain.with_values(**values[value])
        elif values:
            fault(f"runtime.settings.{name}", value, f"one of {', '.join(values)}")
        else:
            fault(f"runtime.settings.{name}", "unknown setting", f"one of {', '.join(SETTINGS)}")
    return plain
