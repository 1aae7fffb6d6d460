"""Low-rank adapters beside frozen linear layers: which have one, what it keeps, moves and trains."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from planner.cost.case import Case
from planner.formulas.elementwise import ADAPTED_INPUT, ADAPTED_OUTPUT, DROPOUT, NOTHING, Traffic
from planner.formulas.gemm import gemm_seconds
from planner.inputs.workload import DTYPE_BYTES
from planner.numeric import Num

GROUPS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("qkv", "latent_down", "query_up", "key_value_up"), "qkv"),
    "attention_out": "proj",
    **dict.fromkeys(("mlp_in", "shared_experts_in", "experts_in"), "fc1"),
    **dict.fromkeys(("mlp_out", "shared_experts_out", "experts_out"), "fc2"),
    **dict.fromkeys(("mixer_in", "mixer_out"), "mixer"),
}
"""Linear layers that may have an adapter, with their group of targets: none at router, head and extra
prediction layers. Those of gated delta nets have one where all have, and no name to ask for them alone.

References
----------
.. [1] Hugging Face, PEFT, ``peft/tuners/tuners_utils.py``, ``_maybe_include_all_linear_layers``: all but the
   output layer.
.. [2] NVIDIA, Megatron-Bridge 067f987d, ``src/megatron/bridge/peft/lora.py``: ``target_modules``.
"""

ENDS: Final = ("embedding", "head")
"""What may be trained whole beside adapters, as a copy that rests beside the frozen weights.

References
----------
.. [1] Hugging Face, PEFT, ``peft/utils/other.py``, ``ModulesToSaveWrapper``: ``original_module`` stays, a
   deep copy of it learns.
"""

SEPARATE: Final = {"qkv": 3, "mlp_in": 2, "shared_experts_in": 2, "experts_in": 2, "mixer_in": 4}
"""Linear layers that transformers has where Megatron has one: queries, keys, values; gate and up; of a gated
delta net those three as one, its gate, strengths and decays (``Qwen3_5GatedDeltaNet``). [-]"""

GATED: Final = ("mlp_in", "shared_experts_in", "experts_in")
"""Those that are two only where a gate stands beside what it opens."""

ACTIVATION_BYTES: Final = 2.0
"""Bytes of an element of an adapter's input and bottleneck, which are 16-bit whatever the base is. [byte]"""


DROPPED_BYTES: Final = 1.0
"""Bytes of the mask that dropout keeps of an element (PyTorch, ``native_dropout``: a boolean). [byte]"""


def learns(case: Case, name: str) -> bool:
    """Whether the weights of the operator called ``name`` learn: all do, or adapters leave its copy to."""
    return case.method.trains_base or (name in ENDS and "ends" in (case.workload.lora_targets or ()))


def learned(case: Case, name: str, params: Num) -> Num:
    """Weights of an operator that learn, in numbers of adapters' weights where its copy has smaller ones.

    A copy beside adapters stays in 16 bit, with its gradient and moments, where nothing is sharded: PEFT
    casts adapters alone to fp32, and Accelerate all that learns only where FSDP shards it.

    References
    ----------
    .. [1] Hugging Face, PEFT 5d602fdb, ``peft/tuners/tuners_utils.py``, ``cast_adapter_dtype``: parameters of
       a ``BaseTunerLayer``; ``utils/other.py``, ``ModulesToSaveWrapper``: a deep copy.
    .. [2] Hugging Face, Accelerate, ``accelerator.py``, ``prepare_model`` ("upcasting"), and
       ``utils/fsdp_utils.py``, ``fsdp2_prepare_model``.
    """
    if case.method.trains_base:
        return params
    if not learns(case, name):
        return 0.0
    cast = case.adapter_library.casts_copies or case.sharding.stage or case.workload.state_dtype
    if cast or not case.own_master:
        return params
    fp32, own = DTYPE_BYTES["fp32"], DTYPE_BYTES["bf16"]
    each = case.optimizer.state_bytes
    moments = case.optimizer.states * (min(each, own) if each >= fp32 else each)
    return params * ((2 * own + moments) / (case.weight_bytes + case.gradient_bytes + case.moment_bytes))


def copy_bytes(case: Case, trained: Num) -> Num:
    """Bytes of a copy that learns beside frozen weights; none where these learn themselves. [byte]"""
    return 0.0 if case.method.trains_base else trained * case.weight_bytes


def has_adapter(case: Case, name: str) -> bool:
    """Whether the linear layer called ``name`` has an adapter."""
    targets = case.workload.lora_targets
    group = GROUPS.get(name)
    return case.method.adapts and group is not None and (not targets or group in targets)


def adapters_beside(case: Case, name: str) -> int:
    """Adapters beside the linear layer called ``name``: as many as the runtime has layers of it. [-]"""
    if not has_adapter(case, name):
        return 0
    plain = name in GATED and not any(ffn.gated for ffn in case.model.ffns)
    return 1 if plain or not case.adapter_library.separate else SEPARATE.get(name, 1)


def adapter_params(case: Case, name: str, inputs: Num, outputs: Num) -> Num:
    """Trained parameters beside a linear layer: a first factor for each adapter, the second ones cut alike.

    Returns
    -------
    Num
        Parameters. [element]
    """
    rank, count = float(case.workload.lora_rank), adapters_beside(case, name)
    if not count:
        return 0.0 * (inputs + outputs)
    return case.method.adapter_params(count * inputs, outputs, rank)


def input_bytes(case: Case, names: tuple[str, ...], in_norm: bool = False) -> float:
    """Bytes kept from forward to backward of each element that linear layers read.

    Parameters
    ----------
    case : Case
        Method, precision and runtime.
    names : tuple of str
        The layers that read it.
    in_norm : bool
        Whether the first of them is one with the norm that makes it, and keeps the result all the same.

    Returns
    -------
    float
        As the weight gradient needs it, where there is one; a frozen product's data gradient needs the
        weight alone, an adapter its input in 16 bit. [byte]

    References
    ----------
    .. [1] NVIDIA, Transformer Engine v2.9, ``transformer_engine/pytorch/module/linear.py``:
       ``saved_inputmat`` under ``weight.requires_grad``; ``layernorm_linear.py``, ``save_for_backward``:
       ``ln_out`` always; ``grouped_linear.py``: ``weight_requires_grad``.
    .. [2] PyTorch, ``tools/autograd/derivatives.yaml``, ``mm``: ``self`` is saved for the gradient of
       ``mat2``.
    .. [3] bitsandbytes, ``bitsandbytes/autograd/_functions.py``, ``MatMul4Bit``: ``ctx.tensors = (None, B)``.
    """
    saved = case.precision.saved_input_bytes
    if case.method.trains_base:
        return saved
    norm, adapted = norm_bytes(case, in_norm), copied_bytes(case, names)
    return max(norm, adapted) if saved == ACTIVATION_BYTES else norm + adapted


def norm_bytes(case: Case, in_norm: bool) -> float:
    """Bytes that a norm before frozen products keeps of an element of its result. [byte]"""
    return case.precision.saved_input_bytes if in_norm else 0.0


def copied_bytes(case: Case, names: tuple[str, ...]) -> float:
    """Bytes of an element of their input that the adapters beside linear layers keep. [byte]"""
    masks = sum(adapters_beside(case, name) for name in names) if _drops(case) else 0
    return ACTIVATION_BYTES * _copies(case, names) + DROPPED_BYTES * masks


def own_input_bytes(case: Case, name: str) -> float:
    """Bytes that adapters keep of an element of an input that the kernel before keeps already. [byte]

    That is nothing where they read the same tensor.
    """
    return copied_bytes(case, (name,)) if _own_copies(case) else 0.0


def _drops(case: Case) -> bool:
    """Whether each adapter keeps the input that it drops a part of, and a mask.

    Those of Megatron-Bridge are priced without: MLPerf's runs, which have this dropout, leave no room for it
    (docs/explanation/known-errors.md).
    """
    return case.traits.adapters.dropout and case.adapter_library.separate


def _own_copies(case: Case) -> bool:
    """Whether each adapter copies its input: casts it to the dtype of its weights, or drops a part."""
    in_fp32 = case.traits.optimizer.parameter_dtype == "fp32" and not case.sharding.shards_gradients
    return in_fp32 or _drops(case)


def regathers_input(case: Case) -> bool:
    """Whether adapters of column-split layers gather their input in each pass, and keep their part alone.

    References
    ----------
    .. [1] NVIDIA, Megatron-Bridge 067f987d, ``src/megatron/bridge/peft/utils.py``,
       ``_sequence_parallel_input_regather_eligibility``: not under CUDA graphs.
    """
    return case.traits.adapters.regathers_input and not case.traits.kernels.graphed


def _copies(case: Case, names: tuple[str, ...]) -> int:
    """Copies of an input that its adapters keep: one, or one each where each has its own. [-]

    References
    ----------
    .. [1] Hugging Face, PEFT, ``peft/tuners/lora/layer.py``, ``_cast_input_dtype``: to the dtype of the
       adapter's weight, which is fp32 unless FSDP has gathered it in 16 bit.
    """
    counts = [adapters_beside(case, name) for name in names]
    return sum(counts) if _own_copies(case) else int(any(counts))


def bottleneck_bytes(case: Case, name: str, rows: Num) -> Num:
    """Bytes that adapters beside a linear layer keep of what is between their two products. [byte]"""
    count = adapters_beside(case, name)
    return ACTIVATION_BYTES * count * case.workload.lora_rank * rows if count else 0.0


def adapter_seconds(
    case: Case, name: str, rows: Num, inputs: Num, outputs: Num, elements: tuple[Num, Num]
) -> tuple[Num, Num]:
    """Seconds forward and backward of the thin products of adapters, and of the kernels around them. [s]

    ``elements`` are those of the layer's input and result where a rank has them: divided over tp along the
    sequence outside of a pair of products.
    """
    count = adapters_beside(case, name)
    if not count:
        return 0.0, 0.0
    rank, curve = float(count * case.workload.lora_rank), case.kernels.gemm["bf16"]
    products = gemm_seconds(rows, rank, inputs, curve)
    products = products + gemm_seconds(rows, outputs, rank / count, curve)
    stream, traits = case.kernels.stream_for("residual"), case.traits
    into = ADAPTED_INPUT if not traits.adapters.operator_fuser else NOTHING
    out = ADAPTED_OUTPUT if not traits.adapters.operator_fuser else NOTHING
    if traits.adapters.dropout:
        into = Traffic(into.forward + count * DROPOUT.forward, into.backward + count * DROPOUT.backward)
    forward = (elements[0] * into.forward + elements[1] * out.forward) / stream.bandwidth
    backward = (elements[0] * into.backward + elements[1] * out.backward) / stream.bandwidth
    return products + forward, 2 * products + backward
