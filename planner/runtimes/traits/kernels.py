"""What is fused outside attention, and the rate that training reaches."""

from __future__ import annotations

from planner.dataclasses import dataclass
from planner.runtimes.traits.trait import trait
from planner.techniques.graphs import GRAPHS
from planner.techniques.norms import NORMS
from planner.techniques.rotary_chains import ROTARY_CHAINS


@dataclass(frozen=True)
class KernelTraits:
    """What is fused outside attention, and the rate that training reaches."""

    fused_norm: bool = trait(
        True,
        "Whether a norm is one kernel, or a chain of elementwise ones.",
    )
    norms: str = trait(
        "apart",
        "Whose code runs norms: whether they are part of products, and what they keep in fp32.",
        words=NORMS,
    )
    fused_activation: bool = trait(
        True,
        "Whether an activation is one kernel, or a chain.",
    )
    mlp_tiles: float = trait(
        1.0,
        "Tiles of a rank's tokens that pass through a dense feed-forward one after another; above one, it "
        "runs forward again in backward.",
        unit="-",
        least=1.0,
    )
    fused_rope: bool = trait(
        True,
        "Whether the rotary embedding is one kernel, or a chain.",
    )
    rotary_chain: str = trait(
        "scripted",
        "How a rotary embedding turns that is a chain: ``scripted`` by a compiler, or in PyTorch's own "
        "operators by ``halves`` or as ``complex`` numbers. By halves it may be of a product that is one "
        "with the values' (``joined``; ``packed`` where whole heads turn).",
        words=ROTARY_CHAINS,
    )
    unfused_norm_bytes: float = trait(
        4.0,
        "Bytes of an element that a norm of several kernels keeps besides: an fp32 copy of its input; 6 "
        "where the normalised element too stays in fp32, in place of 16 bit, to be multiplied by the weight.",
        unit="byte",
    )
    grouped_scan: bool = trait(
        False,
        "Whether the kernel of a scan takes queries and keys in fewer heads than values, and none is copied "
        "for each head of these.",
    )
    compiled: bool = trait(
        False,
        "Whether a compiler fuses the elementwise chains.",
    )
    dropout: bool = trait(
        False,
        "Whether residual and attention dropout run, as in GPT recipes before 2022.",
    )
    fused_weight_gradient: bool = trait(
        True,
        "Whether the weight-gradient product adds into the gradient buffer itself.",
    )
    graphed: str = trait(
        "",
        "What runs as a CUDA graph, whose memory serves nothing else: each layer's feed-forward (``mlp``), "
        "its ``router`` and what sorts tokens before experts, its ``attention`` too, all ``passes``, or "
        "nothing.",
        words=("", *GRAPHS),
    )
    elementwise_traffic: float = trait(
        1.0,
        "Bytes that memory-bound kernels, the loss's among them, move over those counted for a fused one: "
        "sums of bias gradients and of gradients that meet, copies between kernels, metrics on the logits.",
        unit="-",
        above_zero=True,
    )
    compute_derate: float = trait(
        1.0,
        "Share of the kernels' stand-alone rate that the training step reaches.",
        unit="-",
        above_zero=True,
        up_to=1.0,
    )
