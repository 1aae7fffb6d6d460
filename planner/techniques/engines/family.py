"""What an engine of data parallelism keeps at rest, and the moments at which a step may need most memory."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Literal

from planner.dataclasses import dataclass, replace
from planner.numeric import Num, maximum, minimum, where
from planner.plan import Plan
from planner.registry import find
from planner.techniques.offload.family import HOST_ADAM_SECONDS
from planner.techniques.sharding import SHARDINGS, Sharding

HOST_SHARE = 0.8
"""Share of a node's memory that states may take: the rest is for data, caches and the system. [-]"""

GATHERED_BYTES = 2.0
"""Weights that learn are gathered in 16 bit. [byte]"""


@dataclass(frozen=True)
class PassBytes:
    """Bytes that the passes of a step need on each stage, however the states are sharded. [byte]"""

    activations: Num
    """What forward leaves for backward, for all micro-batches in flight."""
    rebuilt: Num
    """What the backward of one layer needs besides."""
    loss: Num
    """What the loss needs besides, on the stage that has it."""
    largest_layer: Num
    """Weights that learn in the largest layer. [element]"""
    gathered_layer: Num
    gathered_head: Num
    gathered_embedding: Num
    """Weights of the largest layer, and of the ends that a stage has, gathered for use."""
    head: Num
    """Weights of the head that learn, on the stage that has it. [element]"""
    one_layer: Num
    """What one layer leaves for backward."""
    grown: Num | None = None
    """Share of a stage's gradients that are there while its activations are still at their peak, where those
    of some layers come back from the host. [-]"""
    product: Num = 0.0
    """Weights of the largest product, where it is needed. [element]"""
    graphed: Num = 0.0
    """Of ``activations``, those in the memory of layers' CUDA graphs."""
    encoder: Num = 0.0
    """Weights of an encoder that is gathered as one, on the stage that has it. [element]"""
    encoder_left: Num = 0.0
    """What it leaves for its backward, and needs besides."""
    chunk: Num = 0.0
    """Weights that learn in the largest chunk, where chunks stay gathered. [element]"""
    gathered_chunk: Num = 0.0
    """All weights of that chunk, gathered."""

    @property
    def table(self) -> Num:
        """Weights of the embedding that learn, on the stage that has it. [element]"""
        return self.gathered_embedding / GATHERED_BYTES


@dataclass(frozen=True)
class Step:
    """All of a step that decides what comes and goes in it."""

    passes: PassBytes
    """What its passes need."""
    plan: Plan
    sharding: Sharding
    """The degrees, and what the ranks of a data-parallel group share."""
    gradients: Num
    gathered: Num
    """All gradients of a stage as a rank keeps them, and all its weights if gathered at once, or the copies
    of those that autocast makes. [byte]"""
    gradient_bytes: float
    reduce_bytes: float
    """A gradient as it is kept, 0 where the host keeps it, and as it travels. [byte]"""
    waiting: float = 0.0
    """Flat buckets that wait for gradients through the passes. [byte]"""
    whole_layers: bool = False
    """Whether recompute repeats whole layers."""
    loss_beside: bool = False
    """Whether the loss's buffers are still there in the first layer's backward."""
    loss_in_parts: bool = False
    """Whether the loss comes in parts, the head's gradients summed over them."""
    whole_tables: bool = False
    """Whether backward makes the gradient of a divided embedding at its whole size (DTensor)."""
    after_others: bool = False
    """Whether its passes come after others, with whose gradients theirs are summed."""
    live_elements: float = 0.0
    bucket_elements: float = 0.0
    """Weights gathered at most beside a product, and gradients reduced at once; 0 for layers. [element]"""
    hosted: bool = False
    """Whether the host steps."""
    biased: bool = False
    """Whether products have biases."""
    trained: Num = 0.0
    """Weights of a stage that learn. [element]"""
    tied: bool = False
    """Whether the head is the embedding's table."""
    small_between: bool = False
    """Whether small weights that are gathered too stand between the large ones: adapters."""

    @property
    def unreduced(self) -> Num:
        """Bytes of gradients that wait to be reduced: a layer's, or a bucket of them."""
        layer = self.passes.largest_layer
        if not self.bucket_elements:
            return self.reduce_bytes * layer
        return self.reduce_bytes * minimum(layer, maximum(self.passes.product, self.bucket_elements))

    @property
    def summed_gradients(self) -> Num:
        """Bytes of gradients from earlier micro-batches, with which the next ones are summed."""
        return self.gradients * where((self.plan.num_microbatches > 1) | self.after_others, 1.0, 0.0)

    @property
    def earlier_gradients(self) -> Num:
        """Bytes of gradients from earlier micro-batches: none in the first, but for buckets that stay."""
        later = (self.plan.num_microbatches > 1) | self.after_others
        if not self.sharding.shards_optimizer:
            later = later | (self.plan.dp > 1)
        return self.gradients * where(later, 1.0, 0.0)

    def gradients_of(self, elements: Num) -> Num:
        """Bytes of the rank's own gradients of so many weights, once they are reduced."""
        return elements * self.gradient_bytes / self.sharding.gradient_shards(self.plan.zero_shards)


@dataclass(frozen=True)
class Moment:
    """One moment of a step, with what comes and goes in it. [byte]"""

    name: str
    """What happens, in words."""
    phase: Literal["loss", "backward", "optimizer"]
    """``loss``, ``backward`` or ``optimizer``."""
    size: Num
    """What moments are compared by: all that is there at the moment and not through the whole step."""
    activations: Num
    """Of that, what forward has left for backward."""
    gradients: Num | None = None
    """Of that, gradients; None where they live through the whole step."""
    spans: bool = True
    """Whether ``size`` holds the activations, which are else the same at all moments."""


Moments = tuple[Moment, ...]
"""Those that compete; of equal ones the first counts."""


@dataclass(frozen=True)
class Engine:
    """Who keeps weights, gradients and optimizer states, and moves them between ranks."""

    name: str
    """As in ``--set engine=NAME``."""
    cite: str
    """Where it was read."""
    whole: Callable[[Step], Moments]
    sharded: Callable[[Step], Moments]
    """The moments of a step, where each rank keeps weights whole and where it keeps a part."""
    lasting: bool = True
    """Whether gradients live through the whole step, where weights are whole."""
    at_rest: bool = False
    """Whether ZeRO-2 too shards weights between steps and holds them gathered from forward to backward, and a
    pipeline gathers or reduces what it can once in a step."""
    pads_rows: bool = False
    """Whether sharded parameters are cut by rows, each by itself, the last parts padded to the first's."""
    keeps_head: bool = False
    """Whether the last norm and the head, and a table tied to it, stay gathered from forward to backward
    where other weights do not and there is no pipeline."""
    by_product: bool = False
    """Whether weights are gathered, and gradients reduced, one product after the other."""
    idles_gradients: bool = False
    """Whether memory of gradients freed after a step serves nothing else."""
    wraps_whole: bool = False
    """Whether weights that rest whole on each rank are wrapped too, in groups of one: cast for each layer as
    others are gathered."""
    gathers_encoder: bool = False
    """Whether an encoder of images is gathered, and its gradients reduced, as one layer."""
    autocasts: bool = False
    """Whether products copy weights that rest whole in fp32 into 16 bits, and keep the copies from forward to
    backward."""
    hosts_gradients: bool = False
    """Whether gradients that ranks share leave for the host as they are reduced, where it steps them."""
    host_copy_bytes: float = 0.0
    """Bytes of each parameter that the host needs beside states and gradients as they are kept. [byte]"""
    pins: Literal["", "parameters", "layers"] = ""
    """What shares a block of pinned memory where weights and gradients rest on the host."""
    lays_gradients: bool = False
    """Whether a step lays the gradients that it casts end to end, after it has their norm in fp64."""
    keeps_bucket: bool = False
    """Whether the buffer in which gradients of sharded weights are reduced is never freed."""
    step_group: float = 0.0
    """Weights of a rank that are stepped at once where parameters are sharded; 0 for all. [element]"""
    host_adam_seconds: float = HOST_ADAM_SECONDS
    """Seconds of its Adam on the host for one parameter. [s]"""
    host_share: float = HOST_SHARE
    """Share of a node's memory that states may take. [-]"""
    replaces_weights: bool = False
    """Whether a gradient takes the place of its 16-bit weight on the host."""
    pooled: bool = False
    """Whether what a node's memory does not hold of weights and states rests on its devices."""
    halves_masters: bool = False
    """Whether a bf16 weight may be one half of its fp32 master, the other half kept beside it."""
    runs: bool = True
    """Whether a runtime here has it."""
    states: Literal["buffer", "parameters", "owners"] = "buffer"
    """How optimizer states are dealt out: as parts of one ``buffer``, as a part of each of the
    ``parameters``, with a ring pass for each, or whole parameters to ``owners``, a message for each."""
    gathers_at_once: bool = False
    """Whether weights that it has stepped are sent round before the next pass starts, so that nothing hides
    them."""
    aliases: tuple[str, ...] = ()
    """Other names."""

    def moments(self, step: Step) -> Moments:
        """Return the moments that may need most memory."""
        return (self.sharded if step.sharding.shards_parameters else self.whole)(step)

    def keeps_all(self, sharding: Sharding) -> bool:
        """Whether weights are whole and gradients live through the whole step, whatever the moment."""
        return self.lasting and not sharding.shards_parameters


@lru_cache(maxsize=16)
def sharding_of(zero: int, engine: Engine) -> Sharding:
    """Return what a ZeRO stage shards with an engine that shards all weights at rest, or does not.

    One that wraps whole weights shards them over groups of one.

    References
    ----------
    .. [1] PyTorch, ``torch/distributed/fsdp/_fully_shard/_fully_shard.py``, ``reshard_after_forward``: if
       false, parameters stay gathered after forward, and backward needs no all-gather.
    """
    found = find(SHARDINGS, f"zero{zero}", "--zero")
    if engine.wraps_whole and not found.stage:
        return replace(find(SHARDINGS, "zero3", "--zero"), name=found.name, stage=0)
    if not engine.at_rest or not found.shards_gradients or found.shards_parameters:
        return found
    return replace(found, shards_parameters=True, keeps_gathered=True)
