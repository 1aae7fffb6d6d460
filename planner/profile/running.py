"""What this machine runs, found without importing torch, beside what a profile was measured with."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Final

from planner.inputs.hardware import HardwareProfile
from planner.inputs.yaml_file import read_yaml
from planner.profile.provenance import differences

DRIVER_FILE: Final = Path("/proc/driver/nvidia/version")
"""Where the loaded NVIDIA driver tells its version on Linux; reading it wakes no GPU."""

_DRIVER: Final = re.compile(r"Kernel Module(?: for \S+)?\s+(\d+(?:\.\d+)+)")


def loaded_driver(told: Path = DRIVER_FILE) -> str:
    """Return the version of the loaded NVIDIA driver, empty where there is none.

    References
    ----------
    .. [1] NVIDIA, "Accelerated Linux Graphics Driver README," ch. "Using the /proc File System Interface".
    """
    try:
        found = _DRIVER.search(told.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return ""
    return found[1] if found else ""


def installed_torch() -> str:
    """Return the version of the installed torch without its build, empty where there is none.

    What is installed says less of its build than torch says of itself: 2.13.0 against 2.13.0+cu130.
    """
    try:
        return _release(metadata.version("torch"))
    except metadata.PackageNotFoundError:
        return ""


def running_versions() -> dict[str, str]:
    """Return the versions that can be told here, those that there are."""
    found = {"driver": loaded_driver(), "torch": installed_torch()}
    return {name: version for name, version in found.items() if version}


def _release(version: str) -> str:
    return version.split("+")[0]


def software_notes(profile: HardwareProfile, now: Mapping[str, str]) -> list[str]:
    """Say where a profile's curves were measured with another driver or torch than run here.

    ``profile``: the cluster of a plan; what ships was measured nowhere, and is not compared; ``now``:
    versions of this machine by name, as `running_versions` finds them.
    """
    notes = []
    for pool in profile.pools:
        part = pool.accelerator
        then = {name: _release(text) for name, text in read_measured(part.curves).items()}
        if changed := differences(then, now):
            notes.append(f"the curves of {part.name} were measured with other versions: {'; '.join(changed)}")
    return list(dict.fromkeys(notes))


def is_measured(curves: str) -> bool:
    """Whether curves are those of a measured machine's own file, not of a name that ships."""
    return curves.endswith((".yaml", ".yml"))


def read_measured(curves: str) -> dict[str, str]:
    """Return the provenance of a curve file, nothing where the curves ship."""
    content = read_yaml(Path(curves).expanduser()) if is_measured(curves) else {}
    then = content.get("provenance")
    return {name: str(text) for name, text in then.items()} if isinstance(then, Mapping) else {}
