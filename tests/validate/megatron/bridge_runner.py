"""Megatron-Bridge's own code as the judge of the Python file that a launch script starts, on a CPU.

Packages that need a GPU are replaced by empty stand-ins, ranks come from a fake process group.
"""

from __future__ import annotations

import contextlib
import enum
import functools
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import io
import os
import sys
import types
import typing
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock, patch

from tests.validate.megatron.capture import USER
from tests.validate.megatron.local_layers import (
    make_local,
    on_meta,
    prepare_local_layers,
    stand_in_for_te,
    weights,
)
from tests.validate.megatron.numerics import derived_numerics
from tests.validate.megatron.runner import TE_VERSION, Verdict, check_rounds, graphed

ABSENT = (
    "triton", "transformer_engine", "transformer_engine_torch", "modelopt", "nvidia_resiliency_ext",
    "mamba_ssm", "flash_attn", "peft", "diffusers", "qwen_vl_utils",
    "timm", "open_clip", "mlflow", "comet_ml", "fla",
    "megatron.energon", "nemo_run", "mistral_common", "webdataset", "av",
    "imageio", "easydict", "ftfy", "librosa", "wandb",
    "flash_mla", "causal_conv1d", "decord", "soundfile",
)  # fmt: skip


OWN = (
    "megatron.bridge.models.gemma.", "megatron.bridge.models.mimo_v2_flash.",
    "megatron.bridge.models.minimax_m2.", "megatron.bridge.models.exaone.exaone4.",
    "megatron.bridge.models.exaone.exaone_moe.", "megatron.bridge.models.ministral3.",
)  # fmt: skip
"""Where layers stand that are the library's own."""


class _Empty(types.ModuleType):
    """A module of which every attribute is there: a class, a function, or another such module."""

    def __getattr__(self, name: str) -> Any:
        if name == "__version__":
            return TE_VERSION
        if name.startswith("__"):
            raise AttributeError(name)
        found: Any
        if name == "Format":
            found = enum.Enum("Format", ("E4M3", "E5M2", "HYBRID"))
        elif name == "FusedAdam":
            found = _fused_adam
        elif name[0].isupper():
            module = importlib.import_module("torch").nn.Module
            found = type(name, (module,), {"__init__": lambda self, *_a, **_k: module.__init__(self)})
        else:
            found = importlib.import_module(f"{self.__name__}.{name}")
        setattr(self, name, found)
        return found

    def __call__(self, *args: Any, **_kwargs: Any) -> Any:
        if len(args) == 1 and callable(args[0]):
            return args[0]
        decorate: Callable[[Any], Any] = lambda function=None, *_a, **_k: function  # noqa: E731
        return None if args and not isinstance(args[0], dict | list) else decorate


def _fused_adam(
    params: Any,
    *,
    master_weight_dtype: Any = None,
    exp_avg_dtype: Any = None,
    exp_avg_sq_dtype: Any = None,
    use_decoupled_grad: bool = False,
    store_param_remainders: bool = False,
) -> None:
    """Stand in for Transformer Engine's optimizer, whose arguments are looked at."""


class _Absent(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names

    def find_spec(
        self, fullname: str, path: Any, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        inside = any(fullname == name or fullname.startswith(f"{name}.") for name in self.names)
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True) if inside else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return _Empty(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        module.__path__ = []


def _missing(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is None
    except ModuleNotFoundError:
        return True


def _fields(record: Any) -> dict[str, Any]:
    """Return the numbers, names and switches of a section."""
    plain = (bool, int, float, str, tuple, type(None))
    return {name: value for name, value in vars(record).items() if isinstance(value, plain)}


class Bridge:
    """The checkout's code, ready to judge plans in a loop."""

    def __init__(self, bridge: str, megatron: str) -> None:
        warnings.filterwarnings("ignore")
        if not hasattr(typing, "override"):
            typing.override = importlib.import_module("typing_extensions").override
        sys.path[:0] = [megatron, str(Path(bridge) / "src")]
        import torch

        self.capability, self.log = (9, 0), io.StringIO()
        torch.cuda.get_device_capability = lambda *_a, **_k: self.capability
        torch.cuda.get_device_properties = lambda *_a, **_k: types.SimpleNamespace(
            major=self.capability[0],
            minor=self.capability[1],
            total_memory=80 << 30,
            name="NVIDIA B200" if self.capability[0] >= 10 else "GPU",
            multi_processor_count=132,
        )
        importlib.import_module("transformers")
        sys.meta_path.append(_Absent(tuple(name for name in ABSENT if _missing(name))))
        os.environ.update(
            WORLD_SIZE="1", RANK="0", LOCAL_RANK="0", MASTER_ADDR="127.0.0.1", MASTER_PORT="29501"
        )
        with contextlib.redirect_stdout(self.log), contextlib.redirect_stderr(self.log):
            stand_in_for_te()
            self.config = importlib.import_module("megatron.bridge.training.config")
            self.state = importlib.import_module("megatron.core.parallel_state")
            self.batches = importlib.import_module("megatron.core.num_microbatches_calculator")
            self.block = importlib.import_module("megatron.core.transformer.transformer_block")
            self.fakes = importlib.import_module("torch.testing._internal.distributed.fake_pg")
            self._import_models()

    def _import_models(self) -> None:
        core = "megatron.core."
        self.providers = importlib.import_module("megatron.bridge.models.gpt_provider")
        self.specs = importlib.import_module(core + "models.gpt.gpt_layer_specs")
        self.groups = importlib.import_module(core + "process_groups_config").ProcessGroupCollection
        block = self.specs.get_gpt_mtp_block_spec

        def local_block(config: Any, spec: Any, use_transformer_engine: bool, **named: Any) -> Any:
            return block(config, spec, use_transformer_engine=False, **named)

        self.specs.get_gpt_mtp_block_spec = local_block
        layers = self.specs.get_gpt_decoder_layer_specs

        def local_layers(*args: Any, **named: Any) -> Any:
            config, _, *rest = (*args, *([True] if "use_transformer_engine" in named else []))
            named.pop("use_transformer_engine", None)
            return layers(config, False, *rest, **named)

        self.specs.get_gpt_decoder_layer_specs = local_layers  # of a last stage with prediction layers alone
        self._import_encoders()
        self._import_hybrids()
        self._import_own_layers()
        prepare_local_layers(self.state)

    def _import_encoders(self) -> None:
        """Have models with an encoder of Megatron-core's layers built of its own, too."""
        core, own = "megatron.core.", "megatron.bridge.models.qwen_vl."
        model = importlib.import_module(own + "modelling_qwen3_vl.model")
        provider = importlib.import_module(own + "qwen3_vl_provider")
        layers = importlib.import_module(core + "models.vision.vit_layer_specs")
        products = importlib.import_module(core + "tensor_parallel")
        model.TENorm = importlib.import_module(core + "transformer.torch_norm").WrappedTorchNorm
        model.TEColumnParallelLinear = products.ColumnParallelLinear
        model.TERowParallelLinear = products.RowParallelLinear
        model.get_vit_layer_with_transformer_engine_spec = layers.get_vit_layer_with_local_spec
        local = self.specs.get_gpt_layer_local_spec

        def layer(num_experts: Any, qk_layernorm: bool, **_: Any) -> Any:
            return local(num_experts=num_experts, qk_layernorm=qk_layernorm, normalization="RMSNorm")

        provider.get_gpt_layer_with_transformer_engine_spec = layer
        self._import_delta()

    def _import_delta(self) -> None:
        """Have gated delta nets built of the classes that stand for Transformer Engine's."""
        core = "megatron.core."
        self.variants = importlib.import_module(
            core + "models.gpt.experimental_attention_variant_module_specs"
        )
        self.variants.DELTA = self.variants.get_transformer_block_with_experimental_attention_variant_spec
        engine = importlib.import_module(core + "extensions.transformer_engine_spec_provider")
        self.variants._get_backend_spec_provider = lambda config: engine.TESpecProvider()

    def _import_own_layers(self) -> None:
        """Have the ends of a pipeline, and the places of its layers, be those of the rank that is built."""
        state, own = self.state, "megatron.bridge.models.gemma."
        for name in ("gemma_provider", "gemma2_provider"):
            module = importlib.import_module(own + name)
            module.is_pp_first_stage = lambda _group: state.get_pipeline_model_parallel_rank() == 0
            module.is_pp_last_stage = lambda _group: (
                state.get_pipeline_model_parallel_rank() == state.get_pipeline_model_parallel_world_size() - 1
            )
        wide = importlib.import_module("megatron.bridge.models.minimax_m2.minimax_m2_provider")
        described, local = wide.minimax_m2_layer_spec, self.specs.get_gpt_layer_local_spec

        @functools.wraps(described)
        def own_layer(config: Any) -> Any:
            fused = "get_gpt_layer_with_transformer_engine_spec"
            with patch.object(self.specs, fused, lambda **named: local(normalization="RMSNorm", **named)):
                return described(config)

        wide.minimax_m2_layer_spec = own_layer
        layer = importlib.import_module("megatron.core.transformer.transformer_layer")
        offset = layer.get_transformer_layer_offset
        layer.get_transformer_layer_offset = lambda config, chunk=None, _rank=None: offset(
            config, chunk, state.get_pipeline_model_parallel_rank()
        )

    def _import_hybrids(self) -> None:
        """Have hybrids built of Megatron-core's own layers, with the gated norm that another package has."""
        core, torch = "megatron.core.", importlib.import_module("torch")
        self.stacks = importlib.import_module(core + "post_training.modelopt.hybrid.model_specs")
        mixer = importlib.import_module(core + "ssm.mamba_mixer")

        class GatedNorm(torch.nn.Module):  # type: ignore[misc,name-defined]
            def __init__(self, width: int, *_: Any, **named: Any) -> None:
                super().__init__()
                self.weight = torch.nn.Parameter(torch.empty(width))

        mixer.ExtendedRMSNorm, mixer.get_cuda_rng_tracker = GatedNorm, MagicMock
        patterns = importlib.import_module(core + "models.hybrid.hybrid_layer_allocation")
        segment, state = patterns.select_pipeline_segment, self.state

        def own_segment(*args: Any, **named: Any) -> Any:
            with patch("torch.distributed.get_rank", lambda *_: state.get_pipeline_model_parallel_rank()):
                return segment(*args, **named)

        patterns.select_pipeline_segment = own_segment

        class Product(torch.nn.Module):  # type: ignore[misc,name-defined]
            def __init__(self, inputs: int, outputs: int, **_: Any) -> None:
                super().__init__()
                self.weight = torch.nn.Parameter(torch.empty(outputs, inputs))

        importlib.import_module(core + "transformer.moe.moe_layer").TELinear = Product
        norm = importlib.import_module(core + "transformer.torch_norm").WrappedTorchNorm
        importlib.import_module(core + "models.hybrid.hybrid_block").TENorm = self.stacks.Norm = norm

    def judge(self, file: Path, gpus: int, capability: float, smoke: bool = False) -> Verdict:
        """Return what Megatron-Bridge makes of an emitted file, or of its smoke run."""
        self.capability = divmod(round(capability * 10), 10)
        verdict, kept = Verdict(), dict(os.environ)
        with contextlib.redirect_stdout(self.log), contextlib.redirect_stderr(self.log):
            try:
                self._judge(file, gpus, verdict.derived, "smoke_config" if smoke else "build_config")
            except (Exception, SystemExit) as error:
                verdict.error = f"{type(error).__name__}: {error}"
            finally:
                os.environ.clear()
                os.environ.update(kept)
                self._reset()
        return verdict

    def _judge(self, file: Path, gpus: int, derived: dict[str, Any], named: str) -> None:
        os.environ |= USER | {"CHECKPOINT": str(file.parent), "WORLD_SIZE": str(gpus)}
        os.environ.pop("CUDA_DEVICE_MAX_CONNECTIONS", None)
        scope: dict[str, Any] = {"__name__": "emitted", "__file__": str(file)}
        exec(compile(file.read_text(), str(file), "exec"), scope)
        config = scope[named]()
        dist = importlib.import_module("torch.distributed")
        dist.init_process_group("fake", store=self.fakes.FakeStore(), rank=0, world_size=gpus)
        self.config.runtime_config_update(config)
        model, train = config.model, config.train
        self.state.initialize_model_parallel(
            model.tensor_model_parallel_size,
            model.pipeline_model_parallel_size,
            model.virtual_pipeline_model_parallel_size,
            context_parallel_size=model.context_parallel_size,
            expert_model_parallel_size=model.expert_model_parallel_size,
            expert_tensor_parallel_size=model.expert_tensor_parallel_size,
            num_distributed_optimizer_instances=config.ddp.num_distributed_optimizer_instances,
            order="tp-cp-ep-pp-dp" if config.dist.use_tp_pp_dp_mapping else "tp-cp-ep-dp-pp",
            create_gloo_process_groups=False,
        )
        self.batches.init_num_microbatches_calculator(
            0, None, train.global_batch_size, train.micro_batch_size, config.data_parallel_size
        )
        check_rounds(model, self.batches.get_num_microbatches())
        shards = self.state.get_data_parallel_world_size(with_context_parallel=True)
        derived.update(
            tp=model.tensor_model_parallel_size,
            pp=model.pipeline_model_parallel_size,
            vpp=model.virtual_pipeline_model_parallel_size or 1,
            cp=model.context_parallel_size,
            dp=config.data_parallel_size,
            ep=model.expert_model_parallel_size,
            etp=model.expert_tensor_parallel_size,
            expert_dp=self.state.get_expert_data_parallel_world_size(),
            micro_batch=train.micro_batch_size,
            num_microbatches=self.batches.get_num_microbatches(),
            sequence_parallel=model.sequence_parallel,
            seq_len=model.seq_length,
            recompute=model.recompute_granularity,
            hosted_layers=model.cpu_offloading_num_layers if model.cpu_offloading else 0,
            zero_shards=shards // config.ddp.num_distributed_optimizer_instances,
            distributed_optimizer=config.ddp.use_distributed_optimizer,
            sharding=config.ddp.data_parallel_sharding_strategy if config.ddp.use_megatron_fsdp else "",
            layers=self._layers(model),
            attention=model.attention_backend.name,
            dispatcher="fused" if model.moe_token_dispatcher_type == "flex" else "all-to-all",
            dropout=(model.attention_dropout, model.hidden_dropout),
            dp_overlap=config.ddp.overlap_grad_reduce or config.ddp.overlap_param_gather,
            tp_overlap=model.tp_comm_overlap,
            low_bit_weights="alone" if model.fp8_param or model.fp4_param else "beside",
            graphed=graphed(model),
            loss_kernel=model.cross_entropy_fusion_impl if model.cross_entropy_loss_fusion else "",
            low_bit_head="mxfp8" if model.fp8_output_proj else "",
            operator_fuser=model.use_transformer_engine_op_fuser,
            precision_aware=config.optimizer.use_precision_aware_optimizer,
            whole_masters=bool(model.fp8) or config.optimizer.fp8_recipe not in (None, "delayed"),
            takes_gradients=config.optimizer.use_precision_aware_optimizer_no_fp8_or_ds_fp8,
            stages_inside=config.dist.use_tp_pp_dp_mapping,
            overlaps_experts=model.overlap_moe_expert_parallel_comm,
            overlaps_shared_expert=model.moe_shared_expert_overlap,
            static_experts=model.moe_pad_expert_input_to_capacity,
            fp8_activation_input=model.activation_func_fp8_input_store,
            fp8_attention=model.fp8_dot_product_attention,
            cached_transposes=not model.disable_parameter_transpose_cache,
            adapter_dropout=bool(config.peft and config.peft.dropout),
            adapter_all_to_all=bool(config.peft and config.peft.a2a_experimental),
            adapter_gathers_input=not model.tp_comm_overlap_disable_qkv,
            adapter_regathers_input=bool(config.peft and config.peft.sequence_parallel_input_regather),
            launch_blocking=os.environ.get("CUDA_LAUNCH_BLOCKING") == "1",
            reduces_in_fp32=config.ddp.grad_reduce_in_fp32,
            fused_activation=model.bias_activation_fusion,
            fused_rope=model.apply_rope_fusion,
            fused_weight_gradient=model.gradient_accumulation_fusion,
        )
        derived.update(derived_numerics(model))
        derived["run"] = {
            "vocab": (model.vocab_size, model.should_pad_vocab, config.tokenizer.vocab_size),
            "global_batch": train.global_batch_size,
            "tokens": (model.seq_length, config.dataset.seq_length),
            "optimizer": _fields(config.optimizer),
            "schedule": _fields(config.scheduler),
            "seed": config.rng.seed,
        }
        rows = self._params(model, config.peft)
        derived["params"] = [params for params, _, _ in rows]
        derived["trained"] = [free for _, free, _ in rows]
        derived["adapters"] = [learned for _, _, learned in rows] if config.peft else []

    def _params(self, model: Any, peft: Any) -> list[tuple[int, int, int]]:
        """Return for a rank of each stage its parameters, those not frozen, and those of adapters."""
        if getattr(model, "hybrid_layer_pattern", None):
            model.hybrid_stack_spec = self.stacks.get_hybrid_stack_modelopt_spec(local_core_attention=True)
        else:
            model.transformer_layer_spec = self._local_spec(model)
        make_local(model)
        model._pg_collection = self.groups.use_mpu_process_groups()
        counts, last = [], model.pipeline_model_parallel_size - 1
        chunks = model.virtual_pipeline_model_parallel_size or 1
        for rank in range(last + 1):
            self.state.set_pipeline_model_parallel_rank(rank)
            count = free = learned = 0
            for chunk in range(chunks):
                ends = {"pre_process": rank + chunk == 0}
                ends |= {"post_process": rank == last and chunk == chunks - 1}
                with on_meta():
                    built = model.provide(**ends, vp_stage=chunk if chunks > 1 else None)
                    count += weights(built)
                    free += weights(built, learned=True)
                    if peft:
                        peft([built], training=True)
                        learned += weights(built, learned=True)
            counts.append((count, free, learned))
        return counts

    def _local_spec(self, model: Any) -> Any:
        """Return the file's choice of layers with Megatron-core's own in place of Transformer Engine's."""
        spec = model.transformer_layer_spec
        if isinstance(spec, functools.partial) and spec.func.__module__.startswith(OWN):
            return functools.partial(spec.func, **{**spec.keywords, "use_transformer_engine": True})
        if isinstance(spec, functools.partial):
            named = {"use_transformer_engine": False, "normalization": model.normalization}
            return functools.partial(spec.func, **{**spec.keywords, **named})
        if spec.__module__.startswith(OWN) or spec is self.variants.DELTA:
            return spec
        assert spec is self.providers.default_layer_spec
        return self.providers.local_layer_spec

    def _layers(self, config: Any) -> list[list[int]]:
        if pattern := getattr(config, "hybrid_layer_pattern", None):
            return [[len(stage)] for stage in pattern.partition("/")[0].split("|")]
        chunks = config.virtual_pipeline_model_parallel_size
        rows = []
        for rank in range(config.pipeline_model_parallel_size):
            self.state.set_pipeline_model_parallel_rank(rank)
            stages = range(chunks) if chunks else [None]
            rows.append(
                [self.block.get_num_layers_to_build(config, vp_stage=stage, pp_rank=rank) for stage in stages]
            )
        return rows

    def _reset(self) -> None:
        dist = importlib.import_module("torch.distributed")
        self.state.destroy_model_parallel()
        self.state.set_pipeline_model_parallel_rank(None)
        self.batches.unset_num_microbatches_calculator()
        if dist.is_initialized():
            dist.destroy_process_group()
        self.log.seek(0)
        self.log.truncate()
