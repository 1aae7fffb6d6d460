"""What Megatron-LM's arguments keep in host memory."""

from __future__ import annotations

from planner.runtimes.imports._sheet import Sheet


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
        sheet.say("offload", "optimizer", "--optimizer-cpu-offload")
        if share is not None and str(share) not in ("1", "1.0"):
            sheet.notes.append(f"--optimizer-offload-fraction {share}: priced as 1")
