"""The records that a runtime's traits name: whose code does each part of a step."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property

from planner.runtimes.traits import Traits
from planner.techniques.adapters import ADAPTER_LIBRARIES, AdapterLibrary
from planner.techniques.allocators import ALLOCATORS, Allocator
from planner.techniques.attention import ATTENTION_KERNELS, AttentionKernel
from planner.techniques.attention_codes import ATTENTION_CODES, AttentionCode
from planner.techniques.checkpointing import CHECKPOINTING, Checkpointing
from planner.techniques.dispatchers import DISPATCHERS, Dispatcher
from planner.techniques.engines import ENGINES, Engine
from planner.techniques.experts import EXPERT_CODES, ExpertCode
from planner.techniques.graphs import GRAPHS, NO_GRAPHS, GraphScope
from planner.techniques.losses import LOSSES, Loss
from planner.techniques.norms import NORMS, NormCode
from planner.techniques.optimizer_steps import OPTIMIZER_STEPS, OptimizerStep
from planner.techniques.pipelines import PIPELINE_CODES, PipelineCode
from planner.techniques.rings import RINGS, RingAttention
from planner.techniques.rotary_chains import ROTARY_CHAINS, RotaryChain
from planner.techniques.routers import ROUTERS, RouterCode
from planner.techniques.tensor import TENSOR_LIBRARIES, TensorLibrary


class Stack(ABC):
    """Whose code runs: a release is such a stack and a few numbers."""

    @property
    @abstractmethod
    def traits(self) -> Traits:
        """The runtime's behaviour, which names them."""

    @cached_property
    def engine(self) -> Engine:
        """Who keeps weights, gradients and optimizer states."""
        return ENGINES[self.traits.engine.name]

    @cached_property
    def allocator(self) -> Allocator:
        """Who finds a place for each tensor."""
        return ALLOCATORS[self.traits.allocator.name]

    @cached_property
    def retry_seconds(self) -> float:
        """Time of a step in which the allocator gives blocks back for others; 0 if it never does. [s]"""
        return self.traits.allocator.retry_seconds if self.allocator.retries else 0.0

    @cached_property
    def loss(self) -> Loss:
        """How head and cross entropy run."""
        return LOSSES[self.traits.loss.kind]

    @cached_property
    def checkpointing(self) -> Checkpointing:
        """How a layer that is recomputed whole runs again."""
        return CHECKPOINTING[self.traits.recompute.kind]

    @cached_property
    def tensor_library(self) -> TensorLibrary:
        """Whose layers run under tensor and sequence parallelism."""
        return TENSOR_LIBRARIES[self.traits.tensor.library]

    @cached_property
    def ring(self) -> RingAttention:
        """Whose code runs attention whose keys and values come from other ranks."""
        return RINGS[self.traits.context.ring]

    @cached_property
    def expert_code(self) -> ExpertCode:
        """Whose code multiplies experts with the tokens that chose them."""
        return EXPERT_CODES[self.traits.experts.code]

    @cached_property
    def norms(self) -> NormCode:
        """Whose code runs norms."""
        return NORMS[self.traits.kernels.norms]

    @cached_property
    def adapter_library(self) -> AdapterLibrary:
        """Whose code puts adapters beside linear layers."""
        return ADAPTER_LIBRARIES[self.traits.adapters.library]

    @cached_property
    def router(self) -> RouterCode:
        """Whose code scores tokens and chooses their experts."""
        return ROUTERS[self.traits.experts.router]

    @cached_property
    def attention_kernel(self) -> AttentionKernel:
        """What computes the core of attention."""
        return ATTENTION_KERNELS[self.traits.attention.kernel]

    @cached_property
    def attention_code(self) -> AttentionCode:
        """Whose code calls it."""
        return ATTENTION_CODES[self.traits.attention.code]

    @cached_property
    def rotary_chain(self) -> RotaryChain:
        """How a rotary embedding turns that is no kernel of its own."""
        return ROTARY_CHAINS[self.traits.kernels.rotary_chain]

    @cached_property
    def graphs(self) -> GraphScope:
        """What of a step is CUDA graphs."""
        return GRAPHS.get(self.traits.kernels.graphed, NO_GRAPHS)

    @cached_property
    def optimizer_step(self) -> OptimizerStep:
        """Whose code runs the optimizer's step."""
        return OPTIMIZER_STEPS[self.traits.optimizer.step]

    @cached_property
    def pipeline_code(self) -> PipelineCode:
        """Whose code runs a pipeline's stages."""
        return PIPELINE_CODES[self.traits.pipeline.code]

    @cached_property
    def dispatcher(self) -> Dispatcher:
        """Who sends tokens to their experts."""
        return DISPATCHERS[self.traits.experts.dispatcher]
