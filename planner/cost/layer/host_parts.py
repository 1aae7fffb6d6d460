"""What parts of a layer beside a plain one's take on the host, counted from the code that launches them."""

from __future__ import annotations

from typing import Final

from planner.cost.layer.norms import norm_modules
from planner.cost.layer.operators import Pricer
from planner.inputs.model import Block, DenseFfn, Experts, LatentAttention
from planner.runtimes.eager import LAUNCH_SECONDS

PLAIN_MODULES: Final = 5.0
"""Modules of a dense layer, each with its own Python around its kernels: norm with queries, keys and values,
attention, its output, norm with the first product of the feed-forward, and the second. [-]

References
----------
.. [1] NVIDIA, Megatron-LM, ``megatron/core/models/gpt/gpt_layer_specs.py``.
"""

LATENT_MODULES: Final = 3.0
"""Modules that latent attention has beside those: the layer's norm alone, the product down to the stream of
keys and values, and the one up from it with its norm; queries with a stream of their own have one more. [-]

References
----------
.. [1] NVIDIA, Megatron-LM, ``megatron/core/models/gpt/gpt_layer_specs.py``, ``MLASelfAttentionSubmodules``.
"""

ROTATED: Final = 26.0
"""Operations of eager rotary embeddings of latent attention's queries and key, forward. [-]

Of each, three for the cosine and three for the sine, two slices and a join into halves, a negation and a
join, two products and a sum.

References
----------
.. [1] NVIDIA, Megatron-LM, ``megatron/core/models/common/embeddings/rope_utils.py``,
   ``_apply_rotary_pos_emb_bshd``.
"""

LATENT_OPERATIONS: Final = ROTATED + 10.0 + 32.0
"""Operations of latent attention beside its modules, both passes. [-]

Those, slices, joins and copies around them, and their gradients.

References
----------
.. [1] NVIDIA, Megatron-LM, ``megatron/core/transformer/multi_latent_attention.py``,
   ``get_query_key_value_tensors``.
"""

BESIDE_MODULES: Final = 3.0
"""Modules of a mixer beside attention: its first product, its scan with the convolution, its result. [-]"""

SHARED_MODULES: Final = 2.0
"""Modules of shared experts: their two products. [-]"""

ROUTER_OPERATIONS: Final = 30.0 + 20.0 - 6.0
"""Operations of a router that is not fused over those of one that is, both passes. [-]

Scores by sigmoid with a bias and their choice, 16; scores and choice for the balancing loss, 10; the loss, 4;
their gradients, 20; fused, three kernels each way.

References
----------
.. [1] NVIDIA, Megatron-LM, ``megatron/core/transformer/moe/moe_utils.py``,
   ``topk_routing_with_score_function``, ``compute_routing_scores_for_aux_loss``,
   ``switch_load_balancing_loss_func``.
"""

REGION_OPERATIONS: Final = 20.0
"""Operations of one part that runs again, beside its own. [-]

Random states are read, set and set back, forward and before it runs again, and its tensors leave the graph
and join it.

References
----------
.. [1] NVIDIA, Megatron-LM, ``megatron/core/tensor_parallel/random.py``, ``CheckpointWithoutOutput``.
"""

FORWARD: Final = 1.0 / 3.0
"""Share of a module's host time that its forward pass has. [-]"""


def is_latent(block: Block) -> bool:
    """Whether a layer's attention is latent."""
    return isinstance(block.mixer, LatentAttention)


def shares_experts(block: Block) -> bool:
    """Whether a layer has shared experts."""
    return isinstance(block.ffn, Experts) and bool(block.ffn.shared_inner)


def beside_seconds(pricer: Pricer, block: Block) -> float:
    """Host time beside a plain layer's: of latent attention, second mixer, shared experts, router. [s]"""
    modules, operations = 0.0, 0.0
    if isinstance(block.mixer, LatentAttention):
        modules += LATENT_MODULES + bool(block.mixer.q_lora_rank)
        operations += LATENT_OPERATIONS
    modules += SHARED_MODULES * shares_experts(block)
    modules += BESIDE_MODULES * (block.beside is not None)
    eager = isinstance(block.ffn, Experts) and pricer.case.router.chained
    operations += ROUTER_OPERATIONS * eager
    return modules * module_seconds(pricer) + operations * LAUNCH_SECONDS


def module_seconds(pricer: Pricer) -> float:
    """Host time of one module of a layer, both passes. [s]"""
    return pricer.case.traits.host.layer_seconds / PLAIN_MODULES


def region_seconds(pricer: Pricer, block: Block) -> float:
    """Host time of the parts of a layer that run again by themselves. [s]"""
    seconds = 0.0
    for modules, operations in regions(pricer, block):
        seconds += FORWARD * modules * module_seconds(pricer)
        seconds += (operations + REGION_OPERATIONS) * LAUNCH_SECONDS
    return seconds


def regions(pricer: Pricer, block: Block) -> list[tuple[float, float]]:
    """Modules and further operations of each part of a layer that runs again by itself. [-]"""
    again, latent = pricer.case.recompute.modules, is_latent(block)
    found: list[tuple[float, float]] = []
    if "core_attn" in again and block.mixer is not None:
        found.append((1.0, 0.0))
    if "mla_up_proj" in again and latent:
        found.append((1.0, ROTATED))
    if "norm" in again:
        found += [(1.0, 0.0)] * norm_modules(pricer, block).count("norm")
    if "mlp" in again and isinstance(block.ffn, DenseFfn):
        found.append((2.0, 0.0))
    if "moe_act" in again and isinstance(block.ffn, Experts):
        found.append((0.0, 0.0))
    if "shared_experts" in again and shares_experts(block):
        found.append((SHARED_MODULES, 0.0))
    return found
