"""PO-H: PipeOffload's selective offload; the longer-lived half of each rank's chunks waits on the host."""

from planner.dataclasses import replace
from planner.techniques.schedules import po_f
from planner.techniques.schedules._uniform import on_device_chunks

ENTRY = replace(
    po_f.ENTRY,
    name="po-h",
    aliases=("pipeoffload-half", "pipeoffload-selective"),
    offloaded_chunks=lambda vpp: (vpp + 1) // 2,
    on_device_chunks=lambda pp, vpp, m, rank: on_device_chunks(pp, vpp, m, rank, vpp // 2),
)
