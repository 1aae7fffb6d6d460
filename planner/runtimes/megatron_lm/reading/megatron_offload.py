"""What arguments keep in host memory, and what share of it."""

from __future__ import annotations

from planner.runtimes.imports.sheet import Sheet
from planner.techniques.offload import OFFLOADS


def shared_offload(name: str, share: object) -> str:
    """Return an offload with the share of the states that a file says; without one where it is no share.

    Examples
    --------
    >>> shared_offload("optimizer", "0.4"), shared_offload("optimizer", None), shared_offload("optimizer", 0)
    ('optimizer:40%', 'optimizer', 'none')
    """
    try:
        number = 1.0 if share is None else float(str(share))
    except ValueError:
        return name
    if number == 0.0:
        return "none"
    return OFFLOADS[name].of_share(number).spelled if 0.0 < number < 1.0 else name


def offloaded(sheet: Sheet) -> None:
    """Take saved tensors of layers, inputs of modules, or the optimizer."""
    hosted = sheet.whole("--cpu-offloading-num-layers")
    if hosted:
        sheet.say("offload", f"activations:{hosted}", "--cpu-offloading-num-layers")
    modules = sheet.take("--offload-modules")
    if sheet.has("--fine-grained-activation-offloading"):
        sheet.say("offload", f"modules:{'+'.join(str(modules or '').split())}", "--offload-modules")
    share = sheet.take("--optimizer-offload-fraction")
    if sheet.has("--optimizer-cpu-offload"):
        sheet.say("offload", shared_offload("optimizer", share), "--optimizer-cpu-offload")
