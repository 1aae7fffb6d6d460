"""PO-F: PipeOffload's full offload; the activations of all chunks wait on the host."""

from planner.techniques.schedules._uniform import (
    bubble_seconds,
    holds,
    in_flight_chunks,
    on_device_chunks,
    order,
)
from planner.techniques.schedules.family import MANY_CHUNKS, Schedule

ENTRY = Schedule(
    name="po-f",
    aliases=("pipeoffload", "pipeoffload-full"),
    cite="arXiv:2503.01328",
    splits_backward=True,
    rules=(MANY_CHUNKS,),
    bubble_seconds=bubble_seconds,
    in_flight_chunks=in_flight_chunks,
    order=order,
    offloaded_chunks=lambda vpp: vpp,
    on_device_chunks=lambda pp, vpp, m, rank: on_device_chunks(pp, vpp, m, rank, 0.0),
    holds=holds,
)
