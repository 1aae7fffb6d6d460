"""Megatron-LM's own code as the judge of a launch script, on a CPU, imported once.

Nothing is trained: ranks come from a fake process group, models are built on the meta device, and GPU and
Transformer Engine are taken to be there.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import sys
import types
import typing
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

from tests.validate.megatron.capture import Start
from tests.validate.megatron.local_layers import make_local, on_meta, prepare_local_layers, weights
from tests.validate.megatron.numerics import derived_numerics

TE_VERSION = "2.12.0"
ROCM = 9.4
"""Capability that PyTorch on ROCm says of an MI300X."""


@dataclass
class Verdict:
    """``error`` is what the runner refused, empty where it took all; ``derived`` what it made of it."""

    error: str = ""
    derived: dict[str, Any] = field(default_factory=dict)


class Megatron:
    """The checkout's code, ready to judge plans in a loop."""

    def __init__(self, checkout: str) -> None:
        import torch

        if not hasattr(typing, "override"):
            typing.override = importlib.import_module("typing_extensions").override
        sys.path.insert(0, checkout)
        self.torch, self.log = torch, io.StringIO()
        torch.cuda.get_device_capability = lambda *_a, **_k: self.capability
        torch.cuda.get_device_properties = lambda *_a, **_k: types.SimpleNamespace(
            major=self.capability[0], minor=self.capability[1], total_memory=80 << 30, name="GPU"
        )
        self.capability = (9, 0)
        silent = (contextlib.redirect_stdout(self.log), contextlib.redirect_stderr(self.log))
        with (
            silent[0],
            silent[1],
            mock.patch.multiple("faulthandler", enable=mock.DEFAULT, register=mock.DEFAULT),
        ):
            self._import()

    def _import(self) -> None:
        core = "megatron.core."
        self.utils = importlib.import_module(core + "utils")
        self.utils._te_version = importlib.import_module("packaging.version").Version(TE_VERSION)
        self.arguments = importlib.import_module("megatron.training.arguments")
        self.tokenizers = importlib.import_module(core + "tokenizers.utils.build_tokenizer")
        self.state = importlib.import_module(core + "parallel_state")
        self.batches = importlib.import_module(core + "num_microbatches_calculator")
        self.block = importlib.import_module(core + "transformer.transformer_block")
        self.specs = importlib.import_module(core + "models.gpt.gpt_layer_specs")
        self.gpt = importlib.import_module(core + "models.gpt")
        self.fakes = importlib.import_module("torch.testing._internal.distributed.fake_pg")
        prepare_local_layers(self.state)

    def judge(self, start: Start, gpus: int, capability: float, build: bool = True) -> Verdict:
        """Return what Megatron-LM makes of a start."""
        self.capability = divmod(round(capability * 10), 10)
        verdict, kept = Verdict(), dict(os.environ)
        with contextlib.redirect_stdout(self.log), contextlib.redirect_stderr(self.log):
            try:
                self._judge(start, gpus, verdict, build)
            except (Exception, SystemExit) as error:
                lines = [line for line in self.log.getvalue().splitlines() if "error:" in line]
                text = lines[-1] if isinstance(error, SystemExit) and lines else str(error)
                verdict.error = f"{type(error).__name__}: {text.strip() or _place(error)}"
            finally:
                os.environ.clear()
                os.environ.update(kept)
                self._reset()
        return verdict

    def _judge(self, start: Start, gpus: int, verdict: Verdict, build: bool) -> None:
        derived = verdict.derived
        torchrun = (
            importlib.import_module("torch.distributed.run").get_args_parser().parse_args(start.arguments)
        )
        derived["world"] = int(str(torchrun.nnodes)) * int(torchrun.nproc_per_node)
        wanted = {"CUDA_DEVICE_MAX_CONNECTIONS", "NVTE_CPU_OFFLOAD_V1"}
        os.environ.update({name: value for name, value in start.environment.items() if name in wanted})
        os.environ.update(WORLD_SIZE=str(gpus), RANK="0", LOCAL_RANK="0")
        sys.argv = ["pretrain_gpt.py", *start.training]
        args = self.arguments.parse_args()
        self.arguments.validate_args(args, {})
        if args.padded_vocab_size is None:  # else worked out when the tokenizer is built
            args.padded_vocab_size = self.tokenizers.vocab_size_with_padding(args.vocab_size, args, False)
        config = self.arguments.core_transformer_config_from_args(args)
        self._groups(args, gpus, derived)
        self._batches(args, config, derived)
        derived.update(
            tp=args.tensor_model_parallel_size,
            pp=args.pipeline_model_parallel_size,
            cp=args.context_parallel_size,
            ep=args.expert_model_parallel_size,
            etp=args.expert_tensor_parallel_size,
            vpp=config.virtual_pipeline_model_parallel_size or 1,
            sequence_parallel=args.sequence_parallel,
            micro_batch=args.micro_batch_size,
            seq_len=args.seq_length,
            recompute=config.recompute_granularity,
            hosted_layers=config.cpu_offloading_num_layers if config.cpu_offloading else 0,
            cp_comm=config.cp_comm_type,
            fp8=config.fp8,
            fp4=config.fp4,
            attention=config.attention_backend.name,
            dispatcher="fused" if config.moe_token_dispatcher_type == "flex" else "all-to-all",
            dropout=(config.attention_dropout, config.hidden_dropout),
            dp_overlap=args.overlap_grad_reduce or args.overlap_param_gather,
            tp_overlap=config.tp_comm_overlap,
            low_bit_weights="alone" if config.fp8_param or config.fp4_param else "beside",
            graphed=graphed(config),
            loss_kernel=args.cross_entropy_fusion_impl if args.cross_entropy_loss_fusion else "",
            low_bit_head="mxfp8" if config.fp8_output_proj else "",
            operator_fuser=config.use_transformer_engine_op_fuser,
            precision_aware=args.use_precision_aware_optimizer,
            stages_inside=args.use_tp_pp_dp_mapping,
            overlaps_experts=config.overlap_moe_expert_parallel_comm,
            overlaps_shared_expert=config.moe_shared_expert_overlap,
            static_experts=config.moe_pad_expert_input_to_capacity,
            launch_blocking=start.environment.get("CUDA_LAUNCH_BLOCKING") == "1",
            reduces_in_fp32=args.accumulate_allreduce_grads_in_fp32,
            fused_activation=config.bias_activation_fusion,
            fused_rope=config.apply_rope_fusion,
            fused_weight_gradient=config.gradient_accumulation_fusion,
        )
        derived.update(derived_numerics(config, args))
        derived["indexer"] = (
            config.experimental_attention_variant,
            config.dsa_indexer_n_heads,
            config.dsa_indexer_head_dim,
            config.dsa_indexer_topk,
            config.dsa_indexer_loss_coeff,
            config.dsa_indexer_use_sparse_loss,
            getattr(config, "dsa_kernel_backend", ""),
        )
        derived["run"] = {
            "padded_vocab": args.padded_vocab_size,
            "global_batch": args.global_batch_size,
            "schedule": (
                args.lr,
                args.min_lr,
                args.lr_decay_style,
                args.lr_warmup_iters,
                args.lr_decay_iters,
            ),
            "optimizer": (args.weight_decay, args.clip_grad, args.adam_beta1, args.adam_beta2, args.seed),
        }
        derived["layers"] = self._layers(config)
        if build:
            derived["params"] = self._params(args, config)
        derived["adapters"] = []

    def _groups(self, args: Any, gpus: int, derived: dict[str, Any]) -> None:
        dist = importlib.import_module("torch.distributed")
        dist.init_process_group("fake", store=self.fakes.FakeStore(), rank=0, world_size=gpus)
        self.state.initialize_model_parallel(
            args.tensor_model_parallel_size,
            args.pipeline_model_parallel_size,
            args.virtual_pipeline_model_parallel_size,
            context_parallel_size=args.context_parallel_size,
            expert_model_parallel_size=args.expert_model_parallel_size,
            num_distributed_optimizer_instances=args.num_distributed_optimizer_instances,
            expert_tensor_parallel_size=args.expert_tensor_parallel_size,
            order="tp-cp-ep-pp-dp" if args.use_tp_pp_dp_mapping else "tp-cp-ep-dp-pp",
            create_gloo_process_groups=False,
        )
        shards = self.state.get_data_parallel_world_size(with_context_parallel=True)
        derived.update(
            dp=self.state.get_data_parallel_world_size(),
            expert_dp=self.state.get_expert_data_parallel_world_size(),
            zero_shards=shards // args.num_distributed_optimizer_instances,
            distributed_optimizer=args.use_distributed_optimizer,
            sharding=args.data_parallel_sharding_strategy if args.use_megatron_fsdp else "",
        )

    def _batches(self, args: Any, config: Any, derived: dict[str, Any]) -> None:
        self.batches.init_num_microbatches_calculator(
            0, None, args.global_batch_size, args.micro_batch_size, derived["dp"], False
        )
        derived["num_microbatches"] = many = self.batches.get_num_microbatches()
        check_rounds(config, many)

    def _layers(self, config: Any) -> list[list[int]]:
        chunks = config.virtual_pipeline_model_parallel_size
        rows = []
        for rank in range(config.pipeline_model_parallel_size):
            self.state.set_pipeline_model_parallel_rank(rank)
            stages = range(chunks) if chunks else [None]
            rows.append(
                [self.block.get_num_layers_to_build(config, vp_stage=stage, pp_rank=rank) for stage in stages]
            )
        return rows

    def _params(self, args: Any, config: Any) -> list[int]:
        make_local(config)
        counts = []
        for rank in range(config.pipeline_model_parallel_size):
            self.state.set_pipeline_model_parallel_rank(rank)
            chunks = config.virtual_pipeline_model_parallel_size
            counts.append(
                sum(
                    self._chunk_params(args, config, rank, stage)
                    for stage in (range(chunks) if chunks else [None])
                )
            )
        return counts

    def _chunk_params(self, args: Any, config: Any, rank: int, chunk: int | None) -> int:
        last = config.pipeline_model_parallel_size - 1
        chunks = config.virtual_pipeline_model_parallel_size or 1
        if chunk is not None:
            self.state.set_virtual_pipeline_model_parallel_rank(chunk)
        spec = self.specs.get_gpt_decoder_block_spec(
            config,
            use_transformer_engine=False,
            normalization=args.normalization,
            vp_stage=chunk,
            pp_rank=rank,
        )
        mtp = None
        if args.mtp_num_layers:
            whole = self.specs.get_gpt_decoder_layer_specs(
                config, use_transformer_engine=False, normalization=args.normalization
            )
            mtp = self.specs.get_gpt_mtp_block_spec(
                config, whole[-1], use_transformer_engine=False, vp_stage=chunk, pp_rank=rank
            )
        with on_meta():
            model = self.gpt.GPTModel(
                config=config,
                transformer_layer_spec=spec,
                vocab_size=args.padded_vocab_size,
                max_sequence_length=args.max_position_embeddings,
                pre_process=rank == 0 and not chunk,
                post_process=rank == last and (chunk or 0) == chunks - 1,
                share_embeddings_and_output_weights=not args.untie_embeddings_and_output_weights,
                position_embedding_type=args.position_embedding_type,
                rotary_percent=args.rotary_percent,
                mtp_block_spec=mtp,
                vp_stage=chunk,
            )
        return weights(model)

    def _reset(self) -> None:
        dist = importlib.import_module("torch.distributed")
        self.state.destroy_model_parallel()
        self.state.set_pipeline_model_parallel_rank(None)
        self.state.set_virtual_pipeline_model_parallel_rank(None)
        self.batches.unset_num_microbatches_calculator()
        if dist.is_initialized():
            dist.destroy_process_group()
        self.log.seek(0)
        self.log.truncate()


def check_rounds(config: Any, many: int) -> None:
    """Test what schedules.py tests at the first step of the interleaved schedule, which cannot start here."""
    if not config.virtual_pipeline_model_parallel_size:
        return
    group, pp = config.microbatch_group_size_per_vp_stage, config.pipeline_model_parallel_size
    if group > many or group < pp:
        raise ValueError(f"group size {group} is not between pp {pp} and {many} micro-batches")
    if 0 < many % group < pp:
        raise ValueError(f"{many} micro-batches leave {many % group} for the last group, less than pp {pp}")


def graphed(config: Any) -> str:
    """Return what runs as CUDA graphs, in the planner's words."""
    if config.cuda_graph_impl == "full_iteration":
        return "passes"
    names = {module.name for module in config.cuda_graph_modules}
    if config.cuda_graph_impl != "transformer_engine":
        return ""
    return "attention" if "attn" in names else "router" if "moe_router" in names else ""


def _place(error: BaseException) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace else ""
