"""Megatron-core's own layers without a GPU or Transformer Engine, so that parameters can be counted."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from typing import Any
from unittest.mock import MagicMock

KERNELS = {
    "models.common.embeddings.rope_utils": ("fused_apply_rotary_pos_emb", "fused_apply_rotary_pos_emb_thd"),
    "transformer.moe.moe_utils": (
        "fused_permute", "fused_permute_with_probs", "fused_sort_chunks_by_index",
        "fused_sort_chunks_by_index_with_probs", "fused_unpermute",
    ),
    "transformer.moe.token_dispatcher": ("fused_dispatch", "set_deepep_num_sms", "hybrid_ep_dispatch"),
}  # fmt: skip
"""Kernels of Transformer Engine and DeepEP that a config asks for, by module."""


def make_local(config: Any) -> None:
    """Change a config so that layers are built by Megatron-core alone; no shape depends on what changes."""
    config.use_cpu_initialization, config.perform_initialization = True, False
    config.transformer_impl, config.gradient_accumulation_fusion = "local", False
    config.persist_layer_norm = config.sequence_parallel = config.moe_grouped_gemm = False
    config.layernorm_zero_centered_gamma = False
    config.context_parallel_size, config.recompute_granularity = 1, None
    config.fp8, config.fp4, config.fp8_param, config.fp4_param = None, None, False, False


def prepare_local_layers(state: Any) -> None:
    """Stand in for what Megatron-core's own layers ask of a GPU; ``state`` is its parallel state."""
    torch, core = importlib.import_module("torch"), "megatron.core."
    torch.cuda.Stream, torch.cuda.Event = MagicMock, MagicMock
    torch.cuda.current_device = lambda: torch.device("meta")
    plain = torch.tensor
    torch.tensor = lambda *values, **named: plain(*values, **named | {"pin_memory": False})
    for name, kernels in KERNELS.items():
        module = importlib.import_module(core + name)
        for kernel in kernels:
            if getattr(module, kernel, None) is None:
                setattr(module, kernel, MagicMock())
    block = importlib.import_module(core + "transformer.transformer_block")
    block.get_cpu_offload_context = lambda *_a, **_k: (contextlib.nullcontext(), None)
    block.LayerNormImpl = importlib.import_module(core + "transformer.torch_norm").WrappedTorchNorm
    _widen_local_attention()
    _build_one_expert()
    language = importlib.import_module(core + "models.common.language_module.language_module")
    language.is_pp_first_stage = lambda _group: state.get_pipeline_model_parallel_rank() == 0
    prediction = importlib.import_module(core + "transformer.multi_token_prediction")
    prediction.is_inference_column_parallel_linear = lambda _module: False


def stand_in_for_te() -> None:
    """Let classes that inherit from those of Transformer Engine inherit from Megatron-core's own.

    It has to run before their modules are imported.
    """
    torch, core = importlib.import_module("torch"), "megatron.core."
    products = importlib.import_module(core + "tensor_parallel.layers")
    attention = importlib.import_module(core + "transformer.dot_product_attention").DotProductAttention
    engine = importlib.import_module(core + "extensions.transformer_engine")

    class Normed(products.ColumnParallelLinear):  # type: ignore[misc,name-defined]
        """A product with the norm of what it reads."""

        def __init__(self, inputs: int, *args: Any, **named: Any) -> None:
            super().__init__(inputs, *args, **named)
            self.layer_norm_weight = torch.nn.Parameter(torch.empty(inputs))
            self.in_features, self.out_features = inputs, self.output_size_per_partition

    engine.TELayerNormColumnParallelLinear = Normed
    norm = importlib.import_module(core + "transformer.torch_norm").WrappedTorchNorm
    # Classes of their own: what asks whether a layer is one of these has to hear no of the local ones.
    engine.TEDotProductAttention = type("TEDotProductAttention", (attention,), {})
    widths = {
        "in_features": property(lambda self: self.input_size_per_partition),
        "out_features": property(lambda self: self.output_size),
    }
    outputs = {
        "in_features": property(lambda self: self.input_size),
        "out_features": property(lambda self: self.output_size_per_partition),
    }
    engine.TEColumnParallelLinear = type("TEColumnParallelLinear", (products.ColumnParallelLinear,), outputs)
    engine.TERowParallelLinear = type("TERowParallelLinear", (products.RowParallelLinear,), widths)
    engine.TENorm = type("TENorm", (norm,), {})


def _widen_local_attention() -> None:
    """Let the local attention, which has no parameters, take the arguments of latent attention."""
    attention = importlib.import_module("megatron.core.transformer.dot_product_attention").DotProductAttention
    plain = attention.__init__

    def widened(*args: Any, k_channels: Any = None, v_channels: Any = None, **kwargs: Any) -> None:
        plain(*args, **kwargs)

    attention.__init__ = widened


def _build_one_expert() -> None:
    """Let the local experts of a layer, which are alike and hundreds, be built once; `weights` counts all."""
    experts = importlib.import_module("megatron.core.transformer.moe.experts").SequentialMLP
    plain = experts.__init__

    def one(self: Any, num_local_experts: int, *args: Any, **kwargs: Any) -> None:
        plain(self, min(1, num_local_experts), *args, **kwargs)
        self.num_local_experts = num_local_experts

    experts.__init__ = one


def weights(model: Any, learned: bool = False) -> int:
    """Return the parameters of a model of local layers, or those of them that are learned."""
    times = {
        id(weight): module.num_local_experts
        for module in model.modules()
        if type(module).__name__ == "SequentialMLP"
        for weight in module.parameters()
    }
    counted = (weight for weight in model.parameters() if weight.requires_grad or not learned)
    return sum(weight.numel() * times.get(id(weight), 1) for weight in counted)


@contextlib.contextmanager
def on_meta() -> Iterator[None]:
    """Build models without storage, whatever device they ask for."""
    torch = importlib.import_module("torch")
    mode = importlib.import_module("torch.overrides").TorchFunctionMode

    class CudaToMeta(mode):  # type: ignore[misc,valid-type]
        def __torch_function__(self, func: Any, kinds: Any, args: Any = (), kwargs: Any = None) -> Any:
            named = dict(kwargs or {})
            if "cuda" in str(named.get("device", "")):
                named["device"] = "meta"
            return func(*args, **named)

    cuda, reduce = torch.Tensor.cuda, torch.distributed.all_reduce
    torch.Tensor.cuda = lambda tensor, *_a, **_k: tensor.to("meta")
    torch.distributed.all_reduce = lambda *_a, **_k: None
    try:
        with torch.device("meta"), CudaToMeta():
            yield
    finally:
        torch.Tensor.cuda, torch.distributed.all_reduce = cuda, reduce
