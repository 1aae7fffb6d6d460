"""Experts, and who sends tokens to them."""

from __future__ import annotations

from planner.dataclasses import dataclass
from planner.runtimes.traits.trait import trait
from planner.techniques.dispatchers import DISPATCHERS
from planner.techniques.experts import EXPERT_CODES
from planner.techniques.routers import ROUTERS


@dataclass(frozen=True)
class ExpertTraits:
    """Experts, and who sends tokens to them."""

    code: str = trait(
        "grouped",
        "Whose code multiplies experts with the tokens that chose them: ``grouped`` products, those of one "
        "``stacked`` parameter, ``every`` expert on all tokens, or with results ``weighed-apart``.",
        name="experts",
        words=EXPERT_CODES,
    )
    router: str = trait(
        "fused",
        "Whose code scores tokens and chooses their experts: Transformer Engine's kernels, or chains of "
        "PyTorch's.",
        words=ROUTERS,
    )
    exposed: float = trait(
        1.0,
        "Share of messages to and from experts that no compute hides.",
        unit="-",
        name="ep_exposed",
        up_to=1.0,
    )
    overlaps: bool = trait(
        False,
        "Whether expert messages run beside the passes of another micro-batch.",
        name="overlaps_experts",
    )
    overlaps_shared: bool = trait(
        False,
        "Whether a shared expert's products run beside expert messages of the same micro-batch.",
        name="overlaps_shared_expert",
    )
    overlapped: float = trait(
        0.4,
        "Share of messages by fused kernels that nothing hides where they do. 0.4 is an assumption, which "
        "the runs of Megatron-Bridge bear (0.42 within a sixth): the kernels' multiprocessors compute no "
        "more.",
        unit="-",
        name="ep_overlapped",
    )
    all_to_all_overlapped: float = trait(
        0.2,
        "The same of messages by an all-to-all of the communication library: an assumption where no run of "
        "the runtime has told it.",
        unit="-",
    )
    traffic: float = trait(
        0.0,
        "Bytes of device memory moved for each byte that leaves a rank for an expert: kernels that sort and "
        "pack.",
        unit="-",
        name="ep_traffic",
    )
    dispatcher: str = trait(
        "all-to-all",
        "Who sends tokens to experts: ``fused`` kernels (DeepEP, HybridEP), once to each node and forwarded "
        "there, or a chain of permutations around an ``all-to-all`` of the communication library, which "
        "sends each of a token's copies by itself.",
        words=DISPATCHERS,
    )
    neighbours: bool = trait(
        False,
        "Whether a token's experts are neighbours, as a gate made for benchmarks may choose them: fused "
        "kernels send it once to each of the few ranks that hold them.",
        name="neighbouring_experts",
    )
    all_to_all_traffic: float = trait(
        0.0,
        "Bytes of device memory that the chain moves more than fused kernels, for each byte that leaves.",
        unit="-",
    )
    static: bool = trait(
        False,
        "Whether experts take a fixed number of tokens and drop the rest, so that the host reads no counts.",
        name="static_experts",
    )
    result_bytes: float = trait(
        0.0,
        "Bytes kept of an element of what experts make, without expert parallelism: 2 where it is multiplied "
        "by a score after the products, 4 where the result is kept too.",
        unit="byte",
        name="expert_result_bytes",
    )
    host_seconds: float = trait(
        0.0,
        "Host time for each local expert of a layer and micro-batch, both passes, where token counts must be "
        "read back before the grouped products start; none under a graph of all passes.",
        unit="s",
        name="expert_host_seconds",
    )
    layer_host_seconds: float = trait(
        0.0,
        "The least host time of a layer with experts and a micro-batch, both passes, however few they are; "
        "none under a graph of attention and router.",
        unit="s",
        name="expert_layer_host_seconds",
    )
