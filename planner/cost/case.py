"""A priced case: the job, the runtime and the techniques of a plan, looked up once."""

from __future__ import annotations

import math
from functools import cached_property

from planner.cost.job_tiers import job_tiers
from planner.cost.stack import Stack
from planner.dataclasses import dataclass, replace
from planner.formulas.collectives import Tier
from planner.formulas.kernels import Kernels
from planner.inputs.hardware import Pool
from planner.inputs.model import ModelSpec
from planner.inputs.workload import DTYPE_BYTES, Workload
from planner.numeric import Num
from planner.plan import Plan
from planner.registry import find
from planner.remembered import remembered
from planner.rules import Mask
from planner.runtimes.family import Job, Runtime
from planner.runtimes.traits import Traits
from planner.techniques.context import CONTEXT_METHODS, ContextMethod
from planner.techniques.context.family import read_method
from planner.techniques.engines import ENGINES
from planner.techniques.engines.family import sharding_of
from planner.techniques.methods import METHODS, Method
from planner.techniques.offload import OFFLOADS, Offload
from planner.techniques.offload.family import read_offload
from planner.techniques.optimizers import OPTIMIZERS, Optimizer
from planner.techniques.optimizers.family import unscaled_bytes
from planner.techniques.precision import PRECISIONS, Precision
from planner.techniques.recompute import RECOMPUTES
from planner.techniques.recompute.family import RecomputeChoice, read_choice
from planner.techniques.schedules import SCHEDULES, Schedule
from planner.techniques.schedules.family import every_pass
from planner.techniques.sharding import Sharding


@dataclass(frozen=True)
class Case(Stack):
    """Everything that a price depends on, apart from the degrees."""

    job: Job
    """Model, cluster, number of accelerators and workload."""
    runtime: Runtime
    """Training framework."""
    sequence_parallel: bool
    """Whether norms and residuals are split along the sequence."""
    recompute: RecomputeChoice
    context: ContextMethod
    schedule: Schedule
    sharding: Sharding
    offload: Offload
    precision: Precision
    optimizer: Optimizer
    method: Method
    """The techniques of the plan, and of the workload."""
    prediction_apart: bool = False
    """Whether prediction layers stand beside decoder layers before a loss alone."""

    @cached_property
    def model(self) -> ModelSpec:
        """The model."""
        return self.job.model

    @cached_property
    def workload(self) -> Workload:
        """The workload."""
        return self.job.workload

    @cached_property
    def pool(self) -> Pool:
        """The accelerators that the plan runs on."""
        return self.job.hardware.pool

    @cached_property
    def traits(self) -> Traits:
        """The runtime's behaviour."""
        return self.runtime.traits

    @property
    def plays(self) -> bool:
        """Whether unlike stages hide some of the bubble, so that no closed form of a step holds for them.

        Ranks that have weight gradients to run while they wait do. Where the next step may start before all
        ranks are done, the form of the span is taken; two directions mix the stages of two ranks.
        """
        one_way = self.schedule.splits_backward and self.schedule.routes == 1
        return one_way and not self.pipeline_code.ends_apart

    @property
    def keeps_chunks(self) -> bool:
        """Whether a chunk's weights stay gathered, its gradients unreduced, for several passes in a row.

        FSDP's hooks gather at each forward and let go after it, whatever the schedule.
        """
        return self.schedule.rounds is not every_pass and not self.engine.at_rest

    def rank_tokens(self, plan: Plan) -> Num:
        """Tokens of a micro-batch on a rank. [element]"""
        return plan.micro_batch * self.workload.seq_len / plan.cp

    @cached_property
    def has_experts(self) -> bool:
        """Whether some layer routes tokens to experts."""
        return bool(self.model.expert_kinds)

    @property
    def experts(self) -> int:
        """Routed experts of the layer that has most of them. [-]"""
        return max((ffn.experts for ffn in self.model.expert_kinds), default=0)

    @cached_property
    def kernels(self) -> Kernels:
        """What the accelerator's kernels reach."""
        return self.pool.accelerator.kernels

    @cached_property
    def peak_rate(self) -> float:
        """Dense peak of the workload's precision. [FLOP/s]"""
        return float(self.pool.accelerator.peak[self.precision.peak])

    @cached_property
    def host_link(self) -> float:
        """Rate of the host link, one direction; endless where nobody says, and then refused. [byte/s]"""
        return float(self.pool.accelerator.host_link or math.inf)

    @cached_property
    def host_copy(self) -> float:
        """Rate of copies to and from the host's memory, one direction: the link's, or less. [byte/s]"""
        return float(self.pool.accelerator.host_copy or self.host_link)

    @property
    def node_ranks(self) -> int:
        """Ranks that share a node's memory, processors and disks. [-]"""
        return min(self.pool.gpus_per_node, self.job.gpus)

    @property
    def hosts_gradients(self) -> bool:
        """Whether gradients rest on the host, where they are stepped, and pass through the device alone."""
        leave = self.offload.fetches or self.engine.hosts_gradients
        return self.offload.optimizer and leave and self.sharding.shards_gradients

    @property
    def device_state_bytes(self) -> Num:
        """Bytes of states of each parameter of a shard that rest on the device.

        Where the host steps others and gradients wait there, a gradient in fp32 rests beside them [1]_.

        References
        ----------
        .. [1] DeepSpeed edaa7221, ``deepspeed/runtime/zero/stage3.py``, ``initialize_optimizer_states``.
        """
        copies = self.engine.host_copy_bytes * self.offload.optimizer
        return (1.0 - self.offload.hosted) * (self.optimizer_bytes + copies)

    @property
    def host_gradient_bytes(self) -> float:
        """Bytes of a gradient that goes down to the host that steps it. [byte]"""
        return self.gradient_bytes if self.offload.fetches else self.offload.down_bytes

    @cached_property
    def tiers(self) -> tuple[Tier, ...]:
        """The interconnect, at the rates that nccl-tests reach."""
        return job_tiers(self.pool, self.job.gpus)

    @cached_property
    def fast_tier(self) -> Tier:
        """The fast links that join a scale-up domain."""
        return self.tiers[self.pool.node.package is not None]

    @cached_property
    def tensor_tiers(self) -> tuple[Tier, ...]:
        """The interconnect, at the rates that this runtime's tensor-parallel collectives reach."""
        return job_tiers(self.pool, self.job.gpus, self.traits.tensor.bandwidth_share)

    @cached_property
    def derate(self) -> float:
        """Share of the kernels' stand-alone rate that the training step reaches. [-]"""
        return self.traits.kernels.compute_derate * self.pool.compute_rate

    def context_exposed(self, method: ContextMethod) -> float:
        """Share of overlapped context messages that nothing hides: the method's, or the runtime's. [-]"""
        return self.traits.context.exposed if method.exposed is None else method.exposed

    @cached_property
    def weight_bytes(self) -> float:
        """Bytes of a trained weight at rest: those of the master weight where it is that itself. [byte]"""
        master = self.workload.master_dtype if self.runtime.one_dtype else None
        return DTYPE_BYTES[master or self.traits.optimizer.parameter_dtype]

    @property
    def rowwise(self) -> bool:
        """Whether fp8 has a scale for each row of a tensor."""
        return self.traits.low_bit.float8_scales == "rows" and self.precision.linear == "fp8"

    @property
    def takes_either_layout(self) -> bool:
        """Whether products take a low-bit weight as it is and transposed alike."""
        return self.precision.either_layout and self.pool.accelerator.arch == "blackwell"

    @property
    def transposes(self) -> bool:
        """Whether low-bit weights are transposed for each data gradient, in place of a copy that rests."""
        kept = self.traits.low_bit.cached_transposes or self.takes_either_layout
        return self.precision.either_layout and not kept

    def resting_bytes(self, plain: float) -> float:
        """Bytes at rest of a product's weight of ``plain`` bytes, its low-bit copies among them. [byte]"""
        recipe, rests = self.precision, self.traits.low_bit.weights
        copies = recipe.weight_copies_bytes / (2.0 if self.takes_either_layout or self.transposes else 1.0)
        if rests == "passing":
            return plain
        if rests == "alone" and recipe.rests_alone:
            return copies
        return plain + copies

    @cached_property
    def frozen_linear_bytes(self) -> float:
        """Bytes at rest of a product's frozen weight; a quantised one is unpacked each time. [byte]"""
        return self.frozen_bytes if self.method.quantises else self.resting_bytes(self.frozen_bytes)

    @cached_property
    def frozen_bytes(self) -> float:
        """Bytes of a frozen weight at rest: it is loaded as the library loads it, or quantised. [byte]"""
        loaded = DTYPE_BYTES[self.traits.adapters.base_dtype]
        return self.method.frozen_weight_bytes if self.method.quantises else loaded

    @cached_property
    def plain_bytes(self) -> float:
        """Bytes at rest of a weight that no method quantises: norms, tables, the head. [byte]"""
        return self.weight_bytes if self.method.trains_base else DTYPE_BYTES[self.traits.adapters.base_dtype]

    @cached_property
    def gradient_bytes(self) -> float:
        """Bytes of a gradient as it is kept between micro-batches. [byte]"""
        kept = DTYPE_BYTES[self.workload.gradient_dtype or self.traits.optimizer.gradient_dtype]
        return min(kept, self._sent_bytes) if self.runtime.one_gradient_buffer else kept

    @cached_property
    def reduce_bytes(self) -> float:
        """Bytes of a gradient as it travels: as it is kept, where one buffer does both. [byte]"""
        return self.gradient_bytes if self.runtime.one_gradient_buffer else self._sent_bytes

    @property
    def _sent_bytes(self) -> float:
        """Bytes in which gradients are reduced: by DDP of our files as they are, of an era's runs as told."""
        own = self.runtime.one_dtype and not self.runtime.era
        ddp = own and not (self.engine.wraps_whole or self.sharding.shards_optimizer)
        return self.weight_bytes if ddp else DTYPE_BYTES[self.traits.optimizer.reduce_dtype]

    @cached_property
    def step_bytes(self) -> float:
        """Bytes that an optimizer's step takes for each weight that the rank steps. [byte]

        The ends' weights, which rest in 16 bit, are counted as if they too were cast.

        References
        ----------
        .. [1] NVIDIA, Megatron-LM d98e8a64, ``megatron/core/optimizer/distrib_optimizer.py``,
           ``_copy_model_grads_to_main_grads``: each gradient as ``float()`` until the next step's begin,
           unless the optimizer takes other dtypes than fp32 (``use_precision_aware_optimizer``).
        .. [2] NVIDIA, Transformer Engine d0067d0d, ``transformer_engine/pytorch/tensor/utils.py``,
           ``quantize_master_weights``: a list of all master weights in the model's dtype, then the casts.
        """
        alone = self.traits.low_bit.weights == "alone" and self.precision.rests_alone
        work, own = self.workload, self.traits.optimizer.step_bytes
        if not self.optimizer_step.casts:
            return own
        own += unscaled_bytes(self.optimizer, work.state_dtype, work.master_dtype)
        if self.takes_gradients:
            return own
        fp32 = DTYPE_BYTES["fp32"] if self.gradient_bytes < DTYPE_BYTES["fp32"] else 0.0
        return own + fp32 + self.precision.step_cast_bytes * alone

    @property
    def takes_gradients(self) -> bool:
        """Whether the optimizer holds the masters, and takes gradients in the dtype that they have.

        References
        ----------
        .. [1] NVIDIA, Megatron-LM d98e8a64, ``megatron/core/optimizer/optimizer_config.py``,
           ``use_precision_aware_optimizer_no_fp8_or_ds_fp8``: with masters in fp32 not where the recipe of
           low bits is another than the delayed one, which 16-bit training has by default; Megatron-Bridge
           067f987d, ``training/mixed_precision.py``: there it is ``tensorwise``, in bf16 too;
           ``optimizer/distrib_optimizer.py``: Megatron-FSDP has gradients of its own.
        """
        work, name = self.workload, self.precision.name
        aware = work.reduces_states or (self.traits.optimizer.precision_aware and name == "bf16")
        adam = self.optimizer.precision_aware and self.sharding.shards_optimizer
        usual = name in ("bf16", "fp16", "fp8-delayed") and not self.traits.optimizer.whole_masters
        apart = work.reduces_states and self.sharding.shards_gradients
        reduced = work.master_dtype not in (None, "fp32") or bool(self.offload.optimizer)
        return aware and adam and (usual or apart or reduced)

    @property
    def splits_master(self) -> bool:
        """Whether the bf16 weight is one half of its fp32 master, of which the other half is kept alone.

        Megatron-FSDP keeps masters of its own, and so does an optimizer of which the host steps a share.

        References
        ----------
        .. [1] NVIDIA, Megatron-LM d98e8a64, ``megatron/core/optimizer/optimizer_config.py``,
           ``store_param_remainders``; Transformer Engine d0067d0d,
           ``transformer_engine/pytorch/optimizers/fused_adam.py``.
        """
        fused = self.engine.halves_masters and not self.sharding.shards_gradients
        whole = self.workload.master_dtype in (None, "fp32") and not self.offload.optimizer
        return self.takes_gradients and fused and whole and self.precision.name == "bf16"

    @property
    def reads_weight(self) -> bool:
        """Whether an optimizer's step reads the weight: as its own master, or one half of it."""
        return self.own_master or self.splits_master

    @cached_property
    def moment_bytes(self) -> float:
        """Bytes of the optimizer's moments for each parameter, which its first step makes. [byte]"""
        state = self.workload.state_dtype
        return self.optimizer.states * (DTYPE_BYTES[state] if state else self.optimizer.state_bytes)

    @property
    def own_master(self) -> bool:
        """Whether weights are their own master: in fp32, or in the dtype that was asked for the master."""
        return self.traits.optimizer.parameter_dtype in ("fp32", self.workload.master_dtype)

    @cached_property
    def optimizer_bytes(self) -> float:
        """Bytes of optimizer state and master weight for each parameter. [byte]"""
        state, master = self.workload.state_dtype, self.workload.master_dtype
        whole = DTYPE_BYTES[master] if master else None
        master_bytes = DTYPE_BYTES["fp32"] - DTYPE_BYTES["bf16"] if self.splits_master else whole
        state_bytes = DTYPE_BYTES[state] if state else None
        return self.optimizer.kept_bytes(state_bytes, 0.0 if self.own_master else master_bytes)


def piped(case: Case, plan: Plan) -> Mask:
    """Whether a pipeline's passes leave gradients whole, and weights that stay gathered, until its end."""
    return (plan.pp > 1) & (case.engine.at_rest and case.sharding.shards_gradients)


def case_of(plan: Plan, job: Job, runtime: Runtime) -> Case:
    """Look the plan's and the workload's techniques up, and the traits that the plan runs.

    Raises
    ------
    InputError
        If a name is in no table.
    """
    passes = plan.sequence_parallel, plan.recompute, plan.cp_method, plan.schedule
    case = _known_case(job, runtime.as_run(plan, job), *passes, plan.zero, plan.offload)
    return replace(case, prediction_apart=True) if plan.prediction_apart else case


@remembered(most=4096, records=2)
def _known_case(
    job: Job,
    runtime: Runtime,
    sequence_parallel: bool,
    recompute: str,
    context: str,
    schedule: str,
    zero: int,
    offload: str,
) -> Case:
    """Return the case of some names: one and the same, with what it has worked out."""
    work = job.workload
    return Case(
        job=job,
        runtime=runtime,
        sequence_parallel=sequence_parallel,
        recompute=read_choice(RECOMPUTES, recompute),
        context=read_method(CONTEXT_METHODS, context),
        schedule=find(SCHEDULES, schedule, "--schedule"),
        sharding=sharding_of(zero, ENGINES[runtime.traits.engine.name]),
        offload=read_offload(OFFLOADS, offload),
        precision=find(PRECISIONS, work.precision, "--precision"),
        optimizer=find(OPTIMIZERS, work.optimizer, "--optimizer"),
        method=find(METHODS, work.method, "--method"),
    )
