"""What data parallelism sends, and what hides it."""

from __future__ import annotations

from planner.dataclasses import dataclass
from planner.runtimes.traits.trait import trait


@dataclass(frozen=True)
class DataTraits:
    """What data parallelism sends, and what hides it."""

    exposed: float = trait(
        0.3,
        "Share of data-parallel traffic that is exposed however long the window; 1 without overlap.",
        unit="-",
        name="dp_exposed",
        up_to=1.0,
    )
    sharded_exposed: float = trait(
        0.0,
        "Share of the traffic of parameters sharded beyond the fast links that is exposed at least; "
        "Megatron's 0.3 is an assumption, the share of `dp_exposed` where nothing was fitted.",
        unit="-",
        up_to=1.0,
    )
    byte_seconds: float = trait(
        0.0,
        "Time for each byte that a rank sends for data parallelism, beside the links' own: copies into and "
        "out of buckets, ranks that wait for one another.",
        unit="s/byte",
        name="dp_byte_seconds",
    )
    rate_share: float = trait(
        1.0,
        "Share of the rate of nccl-tests, latency alike, that collectives of data parallelism reach: less "
        "where each starts cold after a wait for the device and copies lists of parts.",
        unit="-",
        name="dp_rate_share",
        above_zero=True,
        up_to=1.0,
    )
    window: float = trait(
        0.8,
        "Share of every layer's compute that the traffic of sharded parameters may hide behind.",
        unit="-",
        name="dp_window",
        up_to=1.0,
    )
    hidden_traffic: float = trait(
        0.0,
        "Bytes of device memory moved for one byte of hidden collective: what overlap costs the compute.",
        unit="-",
        name="hidden_collective_traffic",
    )
    sharded_wait: float = trait(
        0.0,
        "Share of the passes that ranks wait for the slowest of them where weights are gathered layer by "
        "layer from many fast domains. It is fitted to llm-foundry and shared by DeepSpeed and torchtitan.",
        unit="-",
    )
