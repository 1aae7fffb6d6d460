"""The host's time."""

from __future__ import annotations

from planner.dataclasses import dataclass
from planner.runtimes.traits.trait import trait


@dataclass(frozen=True)
class HostTraits:
    """The host's time."""

    seconds_forward: float = trait(
        0.0,
        "Host time to launch one layer, forward: the floor of its time.",
        unit="s",
        name="host_seconds_forward",
    )
    seconds_backward: float = trait(
        0.0,
        "Host time to launch one layer, backward.",
        unit="s",
        name="host_seconds_backward",
    )
    exposed: float = trait(
        0.0,
        "Share of the shorter of host's and device's time that nothing hides where tensor-parallel ranks "
        "meet at every collective; without tensor parallelism none, and all of it under ``launch_blocking``.",
        unit="-",
        name="host_exposed",
        up_to=1.0,
    )
    launch_blocking: bool = trait(
        False,
        "Whether the host waits for every kernel (``CUDA_LAUNCH_BLOCKING=1``), so that its time for a layer "
        "comes on top of the device's.",
    )
    read_back_seconds: float = trait(
        0.0,
        "Time in which the device idles before each forward attention, recomputed ones too, since the host "
        "reads a value back and launches no further until then: the longest sequence of the batch.",
        unit="s",
    )
    message_seconds: float = trait(
        0.0,
        "Host time that each message between stages costs its rank, and each step of a context method that "
        "waits for the device: to synchronise and launch again.",
        unit="s",
        name="message_host_seconds",
    )
    layer_floor_seconds: float = trait(
        0.0,
        "Host time of a dense layer, both passes: the floor of its time, messages of tensor parallelism "
        "among it.",
        unit="s",
    )
    tensor_floor_seconds: float = trait(
        0.0,
        "What tensor parallelism adds to that floor.",
        unit="s",
    )
    sequence_rank_seconds: float = trait(
        0.0,
        "What sequence parallelism adds to that floor for each tensor-parallel rank of a fast domain.",
        unit="s",
    )
    sequence_far_seconds: float = trait(
        0.0,
        "The same for each rank beyond it, and longer as the network's rate falls with its nodes.",
        unit="s",
    )
    step_seconds: float = trait(
        0.0,
        "Host time of a step beside its layers': data, gradients' norm, optimizer, logging. With it a step "
        "takes no less than its host does; 0 where that is not known.",
        unit="s",
        name="host_step_seconds",
    )
    layer_seconds: float = trait(
        0.0,
        "Host time of a layer and micro-batch, both passes, in such a step.",
        unit="s",
        name="host_layer_seconds",
    )
    context_seconds: float = trait(
        0.0,
        "What context parallelism adds to it.",
        unit="s",
        name="host_context_seconds",
    )
    deterministic: bool = trait(
        False,
        "Whether PyTorch fills every new tensor before its use (``torch.use_deterministic_algorithms``).",
    )
    filling_share: float = trait(
        0.0,
        "What launching those fills adds to the host time of a layer, over the rest of it.",
        unit="-",
        name="host_filling_share",
        up_to=1.0,
    )
