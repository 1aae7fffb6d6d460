"""What a step takes on the host however little its device has to do: a floor of the step's time."""

from __future__ import annotations

from planner.cost.case import Case
from planner.cost.layer.adapters import adapters_beside
from planner.cost.layer.expert_host import expert_floor_seconds, local_experts
from planner.cost.layer.host_parts import beside_seconds, module_seconds, region_seconds
from planner.cost.layer.layer_floor import FORWARD_SHARE
from planner.cost.layer.operators import Pricer
from planner.inputs.model import Block
from planner.numeric import Num, maximum, where
from planner.plan import Plan
from planner.runtimes.eager import LAUNCH_SECONDS

BESIDE_ATTENTION = 0.5
"""Share of a layer's kernels outside attention: about half of the fourteen of `LAYER_LAUNCHES`. [-]"""


COMPILED_SHARE = 0.5
"""Share of an eager layer's host time that a compiled one takes: fewer kernels, and the same messages. [-]"""

ADAPTED = ("qkv", "attention_out", "mlp_in", "mlp_out")
"""Linear layers of a dense layer, each with the adapters that it may have."""

ADAPTER_SHARE = 1.0 / 8.0
"""Launches of an adapter over those of a layer: a copy, two thin products, a scale, a sum and their gradients
are 15 beside about 120. [-]

References
----------
.. [1] Hugging Face, PEFT, ``peft/tuners/lora/layer.py``, ``Linear.forward``.
"""

ADAPTER_MODULES = 2.0
"""Modules of an adapter of Megatron-core: both its products are parallel linear layers of it. [-]

References
----------
.. [1] NVIDIA, NeMo 24.07, ``nemo/collections/nlp/modules/common/megatron/adapters/parallel_adapters.py``, and
   Megatron-Bridge, ``peft/utils.py``, ``ParallelLinearAdapter``.
"""

ADAPTER_OPERATIONS = 12.0
"""Operations around them, both passes: dropout, a copy, a scale, a sum, and their gradients. [-]"""


def host_step_seconds(case: Case, plan: Plan) -> Num:
    r"""Least seconds of a step: the launches of its layers, micro-batch by micro-batch, and of its end. [s]

    .. math:: t = t_0 + \left(m + \frac{p - 1}{v}\right) \frac{1}{p} \sum_{l=1}^{L} h_l

    of :math:`m` micro-batches on :math:`p` stages of :math:`v` chunks, whose :math:`L` layers take
    :math:`h_l` each (`host_layer_seconds`). The host runs ahead of the device from one step's end to the
    next, where it reads the loss and the gradients' norm: the step takes the longer of both times, not their
    sum. A graph of all passes leaves :math:`t_0`.

    Notes
    -----
    The form is empirical: steps of 73 tests of Megatron-LM [1]_, whose models are so small that their devices
    idle nine tenths of the time, tell it.

    References
    ----------
    .. [1] NVIDIA, Megatron-LM, ``tests/functional_tests/test_cases``, golden values of H100 and GB200,
       https://github.com/NVIDIA/Megatron-LM.
    """
    if not case.traits.host.layer_seconds:
        return 0.0
    pricer = Pricer(case, plan)
    layers: Num = 0.0
    for name in dict.fromkeys(case.model.layers):
        layers = layers + case.model.layers.count(name) * host_layer_seconds(pricer, case.model.blocks[name])
    if case.model.crosses and (encoder := case.model.encoder) is not None:
        for name in encoder.layers:
            layers = layers + host_layer_seconds(pricer, encoder.blocks[name])
    passes = plan.num_microbatches + (plan.pp - 1.0) / plan.vpp
    again = 1.0 + FORWARD_SHARE * case.recompute.whole_layer
    return case.traits.host.step_seconds + passes * (layers * again / plan.pp)


def adapters_seconds(pricer: Pricer) -> float:
    """Host time of the adapters of a layer, both passes. [s]

    Those of PEFT are plain operations; NVIDIA's are two linear modules of the core and kernels around them.
    """
    count = sum(adapters_beside(pricer.case, name) for name in ADAPTED)
    if pricer.case.adapter_library.separate:
        return ADAPTER_SHARE * count * pricer.case.traits.host.layer_seconds
    return count * (ADAPTER_MODULES * module_seconds(pricer) + ADAPTER_OPERATIONS * LAUNCH_SECONDS)


def host_layer_seconds(pricer: Pricer, block: Block) -> Num:
    """Host time of a layer and micro-batch, both passes; a graph of its attention leaves half of it. [s]"""
    plan, traits = pricer.plan, pricer.case.traits
    beside = beside_seconds(pricer, block) + region_seconds(pricer, block)
    experts = expert_floor_seconds(pricer, local_experts(pricer, block.ffn), beside)
    if pricer.case.graphs.whole:
        return experts
    if pricer.case.graphs.attends:
        return maximum(experts, BESIDE_ATTENTION * traits.host.layer_seconds)
    context = where(plan.cp > 1, traits.host.context_seconds, 0.0)
    whole = traits.host.layer_seconds + adapters_seconds(pricer) + beside
    whole = whole + BESIDE_ATTENTION * traits.host.layer_seconds * (block.cross is not None)
    launched = whole * (COMPILED_SHARE if traits.kernels.compiled else 1.0)
    filled = traits.host.deterministic * traits.host.filling_share * launched
    return maximum(experts, launched) + context + filled
