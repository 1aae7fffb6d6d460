"""What a runtime does with the machine, as numbers and names that the cost model reads.

A trait belongs to a runtime and its era, never to a model or a run. Defaults are today's Megatron-core.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

AttentionKernel = Literal[
    "flash-3", "flash-2", "flash-1", "triton-2023", "lightseq", "fused-softmax", "unfused"
]


@dataclass(frozen=True)
class Traits:
    """Behaviour that changes time or memory, by subject."""

    # Kernels and what is fused
    attention: AttentionKernel = "flash-3"
    """Attention kernel; ``flash-3`` stands for the best that the accelerator has."""
    attention_share: float = 1.0
    """Rate of that kernel over its published one. [-]"""
    fp8_attention: bool = False
    """Whether attention multiplies in fp8 (Transformer Engine's ``fp8_dpa``). It changes numerics."""
    attention_copies: bool = False
    """Whether keys and values are repeated to all query heads, and the output copied, before they are
    kept."""
    fused_norm: bool = True
    """Whether a norm is one kernel, or a chain of elementwise ones."""
    fused_activation: bool = True
    """Whether an activation is one kernel, or a chain."""
    fused_rope: bool = True
    """Whether the rotary embedding is one kernel, or a chain."""
    chained_rope: Literal["", "halves", "complex"] = ""
    """How a rotary embedding turns that is a chain of PyTorch's own operators: by ``halves`` or as
    ``complex`` numbers. It keeps nothing, since it multiplies by constants, and moves more than a scripted
    one, which keeps copies; empty for that."""
    norm_in_product: bool = False
    """Whether the norm before a product of attention or of a dense feed-forward is part of that product's
    layer, so that recompute of norms does not reach it."""
    unfused_norm_bytes: float = 4.0
    """Bytes of an element that a norm of several kernels keeps besides: an fp32 copy of its input; 6 where
    the normalised element too stays in fp32, in place of 16 bit, to be multiplied by the weight. [byte]"""
    norm_reads_fp32: bool = False
    """Whether a fused norm reads a copy of its input that was cast to fp32, and keeps it for backward."""
    compiled: bool = False
    """Whether a compiler fuses the elementwise chains."""
    dropout: bool = False
    """Whether residual and attention dropout run, as in GPT recipes before 2022."""

    # The loss, and what all memory-bound kernels move
    vocab_parallel_loss: bool = True
    """Whether logits stay divided by tp through the loss."""
    padded_vocabulary: bool = True
    """Whether a vocabulary is padded so that the head's products are aligned; unpadded, an odd one is
    slow."""
    logit_bytes: float = 12.0
    """Live bytes of one logit at the loss, gradient included. [byte]"""
    split_logit_bytes: float = 0.0
    """Further live bytes of a logit where the loss runs on logits divided by tp. [byte]"""
    loss_chunks: float = 1.0
    """Parts of a micro-batch that pass through head and loss, forward and backward, one after another. [-]"""
    loss_traffic: float = 36.0
    """Bytes moved for one logit by loss and softmax, forward and backward. [byte]"""
    elementwise_traffic: float = 1.0
    """Bytes that memory-bound kernels, the loss's among them, move over those counted for a fused one: sums
    of bias gradients and of gradients that meet, copies between kernels, metrics on the logits. [-]"""

    # Weights, gradients and the optimizer's step
    parameter_dtype: str = "bf16"
    """Dtype of weights at rest; fp32 where they are their own master copy, and cast when gathered."""
    gradient_dtype: str = "fp32"
    """Dtype in which gradients are kept between micro-batches."""
    gradient_copy_bytes: float = 0.0
    """Bytes of each gradient in a further dtype, kept beside those of ``gradient_dtype``. [byte]"""
    reduce_dtype: str = "fp32"
    """Dtype in which gradients travel."""
    whole_matrices: Literal["gathered", "owned"] = "gathered"
    """How ranks that share states see whole matrices, where the optimizer needs them: their momentum is
    ``gathered``, or each matrix is ``owned`` by one rank, and its gradient and weight sent from and to it."""
    all_reduced_bytes: float = 0.0
    """Bytes of each gradient in an all-reduce over the ranks that share optimizer states, each of which then
    steps its own part; 0 for a reduce-scatter of ``reduce_dtype``. [byte]"""
    step_bytes: float = 0.0
    """Bytes for each weight that a rank's optimizer steps, in flat buffers that it takes for the step and for
    which no freed activation has room: an fp32 copy of its gradients. [byte]"""
    step_copies: Literal["any", "low-bit", "never"] = "never"
    """Where an optimizer's step holds an fp32 copy of gradients that are kept in fewer bits, and a 16-bit one
    of weights that rest in low bits alone: with ``any`` weights, with ``low-bit`` ones, or never."""

    optimizer_traffic: float = 1.0
    """Bytes that an optimizer's step moves over those counted for one fused kernel: clipping, copies into
    and out of buffers, a kernel for each of its operations. [-]"""

    # Adapters
    separate_projections: bool = False
    """Whether queries, keys and values, and the halves of a gated feed-forward, are linear layers of their
    own, with an adapter each (transformers)."""
    operator_fuser: bool = False
    """Whether Transformer Engine's operator fuser makes one kernel of an activation and the cast of its
    result to low bits, and the scale and sums of adapters part of their products."""
    adapter_dropout: bool = False
    """Whether dropout runs on the input of adapters."""

    # Low-bit formats
    fp8_activation_input: bool = False
    """Whether the input of a gated activation waits for backward in fp8, a byte an element in place of two
    (Megatron-core's ``activation_func_fp8_input_store``). It changes numerics."""
    cached_transposes: bool = True
    """Whether weights that rest in low bits keep a transposed copy, where products need one: without, it is
    made anew for each product (Transformer Engine, ``disable_parameter_transpose_cache``)."""
    low_bit_weights: Literal["beside", "alone", "passing"] = "beside"
    """How weights of linear layers in low-bit formats rest: their copies ``beside`` the 16-bit weight, the
    copies ``alone``, or the 16-bit weight alone, its copies ``passing`` with each product."""
    float8_scales: Literal["tensor", "rows"] = "tensor"
    """Whether fp8 has one scale for a ``tensor``, or for each of its ``rows`` (torchao's recipes
    ``tensorwise`` and ``rowwise``)."""
    low_bit_head: Literal["", "mxfp8"] = ""
    """Precision in which the product with the vocabulary runs in low bits too; empty for none."""
    low_bit_gathers: bool = False
    """Whether sequence-parallel inputs and gradients are cast before they are gathered, and travel in low
    bits (torchao, ``float8/float8_tensor_parallel.py``); by rows they cannot."""

    # The backward pass and recompute
    fused_weight_gradient: bool = True
    """Whether the weight-gradient product adds into the gradient buffer itself."""
    early_stop: bool = False
    """Whether recompute stops before the last product of a layer, where backward does not need its result."""
    selective: Literal["attention", "second-products"] = "attention"
    """What selective recompute without named modules repeats: ``attention``, or ``second-products``."""
    plain_checkpoints: bool = False
    """Whether full recompute repeats whole layers even where the context method has checkpoints of its own,
    behind attention."""
    sequence_regather: bool = True
    """Whether sequence parallelism keeps inputs sharded and gathers them again in backward; if not, they are
    kept whole."""

    # What rests on a rank
    persistent_gradients: bool = True
    """Whether the gradient buffer lives through the whole step."""
    sharded_at_rest: bool = False
    """Whether ZeRO-2 too shards weights between steps and holds them gathered from forward to backward, and a
    pipeline gathers or reduces what it can once in a step (PyTorch FSDP)."""
    padded_rows: bool = False
    """Whether sharded parameters are cut by rows, each by itself, and the last parts padded to the first's
    (PyTorch FSDP2)."""
    head_stays_gathered: bool = False
    """Whether the last norm and the head, and a table tied to it, stay gathered from forward to backward
    where other weights do not and there is no pipeline."""
    gradient_blocks_idle: bool = False
    """Whether memory of gradients freed after a step stays with the allocator and serves nothing else."""

    # The pipeline
    pipeline_slots: float = 0.0
    """Micro-batches that each stage but the last has room for, over the stages of the pipeline, where memory
    is planned before the job starts; 0 where it is taken as micro-batches come. [-]"""
    stages_end_apart: bool = False
    """Whether a stage goes on to its next step when its own passes are done: the optimizer validates
    later."""
    p2p_occupies: bool = True
    """Whether a message between stages occupies its sender and receiver."""
    scattered_messages: bool = False
    """Whether tensor-parallel ranks that hold a message between stages whole send a part each, and gather it
    on arrival; with sequence parallelism they hold parts anyway."""

    whole_in_flight: float = 0.0
    """Tensors of the hidden size, undivided by tp, that each micro-batch in flight keeps on a stage of a
    pipeline with sequence parallelism. [-]"""

    # Tensor and context parallelism
    told_reductions: bool = False
    """Whether the bytes of tensor parallelism hold those of small reductions, whose time is not priced: three
    numbers of each token in a loss over divided logits, and gradients of norms that are split along the
    sequence (PyTorch's DTensor)."""
    fp32_context_gradients: bool = False
    """Whether context parallelism passes gradients of keys and values on in fp32, and once round the whole
    ring (``torch.distributed.tensor.experimental``)."""
    tp_bandwidth_share: float = 0.75
    """Share of nccl-tests bandwidth that tensor-parallel collectives reach. [-]"""
    message_multiprocessors: float = 0.0
    """Multiprocessors that products leave to the tensor-parallel messages that they hide. [-]"""
    tp_exposed: float = 1.0
    """Share of tensor-parallel messages that no compute hides. [-]"""
    cp_exposed: float = 0.5
    """Share of context-parallel messages that no compute hides. [-]"""

    # Experts
    ep_exposed: float = 1.0
    """Share of messages to and from experts that no compute hides. [-]"""
    overlaps_experts: bool = False
    """Whether expert messages run beside the passes of another micro-batch."""
    ep_overlapped: float = 0.4
    """Share of messages by fused kernels that nothing hides where they do. 0.4 is an assumption, which the
    runs of Megatron-Bridge bear (0.42 within a sixth): the kernels' multiprocessors compute no more. [-]"""
    all_to_all_overlapped: float = 0.2
    """The same of messages by an all-to-all of the communication library: an assumption where no run of the
    runtime has told it. [-]"""
    ep_traffic: float = 0.0
    """Bytes of device memory moved for each byte that leaves a rank for an expert: kernels that sort and
    pack. [-]"""
    dispatcher: Literal["fused", "all-to-all"] = "all-to-all"
    """Who sends tokens to experts: ``fused`` kernels (DeepEP, HybridEP), once to each node and forwarded
    there, or a chain of permutations around an ``all-to-all`` of the communication library, which sends each
    of a token's copies by itself."""
    all_to_all_traffic: float = 0.0
    """Bytes of device memory that the chain moves more than fused kernels, for each byte that leaves. [-]"""
    static_experts: bool = False
    """Whether experts take a fixed number of tokens and drop the rest, so that the host reads no counts."""

    # Messages between stages
    pp_exposed: float = 1.0
    """Share of messages between stages that no compute hides. [-]"""
    plain_pp_exposed: float = 0.0
    """The least share of a message between stages that nothing hides where a rank has a single chunk. [-]"""

    # Data parallelism and sharded parameters
    dp_exposed: float = 0.3
    """Share of data-parallel traffic that is exposed however long the window; 1 without overlap. [-]"""
    sharded_exposed: float = 0.0
    """Share of the traffic of parameters sharded beyond the fast links that is exposed at least; Megatron's
    0.3 is an assumption, the share of `dp_exposed` where nothing was fitted. [-]"""
    dp_byte_seconds: float = 0.0
    """Time for each byte that a rank sends for data parallelism, beside the links' own: copies into and out
    of buckets, ranks that wait for one another. [s/byte]"""
    tensor_hop_seconds: float = 0.0
    """Latency of a ring pass of a tensor-parallel collective for each doubling of its nodes, beside the
    network's: that of a tree. [s]"""
    dp_rate_share: float = 1.0
    """Share of the rate of nccl-tests, latency alike, that collectives of data parallelism reach: less where
    each starts cold after a wait for the device and copies lists of parts. [-]"""
    step_gathers_wait: bool = False
    """Whether weights that the optimizer has stepped are sent round before the next pass starts, so that
    nothing hides them."""
    owned_parameters: bool = False
    """Whether optimizer states are dealt out by whole parameters, each of them reduced to its owner and sent
    from it in a message of its own, where a shard is else a part of one buffer."""
    parameters_apart: bool = False
    """Whether a call that reduces or gathers sharded optimizer states has a ring pass for each parameter."""
    prefetch_elements: float = 0.0
    """Weights gathered at once where parameters are sharded; 0 stands for a layer. [element]"""
    reuse_elements: float = 0.0
    """Weights within which a weight that recompute has used is kept for its backward, where parameters are
    sharded; 0 stands for a whole layer. [element]"""
    recompute_gathers: bool = False
    """Whether recompute calls the layer's sharded unit again, and so gathers its weights a third time; where
    the unit holds the recompute, backward's gather serves both."""
    live_elements: float = 0.0
    """Weights gathered at most beside those of the product that runs, where parameters are sharded; 0 stands
    for two layers. [element]"""
    bucket_elements: float = 0.0
    """Gradients that are reduced at once where they or their optimizer states are sharded, or the largest
    product's if these are more; 0 stands for a layer. [element]"""
    flat_buckets: float = 0.0
    """Flat buffers of ``bucket_elements`` that wait for backward where only optimizer states, or gradients
    too, are sharded. [-]"""
    dp_window: float = 0.8
    """Share of every layer's compute that the traffic of sharded parameters may hide behind. [-]"""
    hidden_collective_traffic: float = 0.0
    """Bytes of device memory moved for one byte of hidden collective: what overlap costs the compute. [-]"""
    sharded_wait: float = 0.0
    """Share of the passes that ranks wait for the slowest of them where weights are gathered layer by layer
    from many fast domains. It is fitted to llm-foundry and shared by DeepSpeed and torchtitan. [-]"""

    # Rates that training reaches
    cp_slowdown: float = 1.2
    """Time of attention under context parallelism over its share of the whole: smaller calls and stitching.
    [-]"""
    merges_each_step: bool = False
    """Whether the result of each step on another rank's keys is merged before the next step starts, so that
    stitching grows with their number, and ``cp_slowdown`` is that of two ranks. PyTorch's is
    (``torch.distributed.tensor.experimental``, ``_SDPAMerger``); Transformer Engine merges beside the next
    step, on a stream of its own (``context_parallel.py``, ``cp_stream``)."""
    compute_derate: float = 1.0
    """Share of the kernels' stand-alone rate that the training step reaches. [-]"""

    # The host
    host_seconds_forward: float = 0.0
    """Host time to launch one layer, forward: the floor of its time. [s]"""
    host_seconds_backward: float = 0.0
    """Host time to launch one layer, backward. [s]"""
    host_exposed: float = 0.0
    """Share of the shorter of host's and device's time that nothing hides where tensor-parallel ranks meet at
    every collective; without tensor parallelism none, and all of it under ``launch_blocking``. [-]"""
    launch_blocking: bool = False
    """Whether the host waits for every kernel (``CUDA_LAUNCH_BLOCKING=1``), so that its time for a layer
    comes on top of the device's."""
    read_back_seconds: float = 0.0
    """Time in which the device idles before each forward attention, recomputed ones too, since the host reads
    a value back and launches no further until then: the longest sequence of the batch. [s]"""
    message_host_seconds: float = 0.0
    """Host time that each message between stages costs its rank, and each step of a context method that waits
    for the device: to synchronise and launch again. [s]"""
    expert_host_seconds: float = 0.0
    """Host time for each local expert of a layer and micro-batch, both passes, where token counts must be
    read back before the grouped products start; none under a graph of all passes. [s]"""
    expert_layer_host_seconds: float = 0.0
    """The least host time of a layer with experts and a micro-batch, both passes, however few they are; none
    under a graph of attention and router. [s]"""

    layer_floor_seconds: float = 0.0
    """Host time of a dense layer, both passes: the floor of its time, messages of tensor parallelism among
    it. [s]"""
    tensor_floor_seconds: float = 0.0
    """What tensor parallelism adds to that floor. [s]"""
    sequence_rank_seconds: float = 0.0
    """What sequence parallelism adds to that floor for each tensor-parallel rank of a fast domain. [s]"""
    sequence_far_seconds: float = 0.0
    """The same for each rank beyond it, and longer as the network's rate falls with its nodes. [s]"""

    host_step_seconds: float = 0.0
    """Host time of a step beside its layers': data, gradients' norm, optimizer, logging. With it a step takes
    no less than its host does; 0 where that is not known. [s]"""
    host_layer_seconds: float = 0.0
    """Host time of a layer and micro-batch, both passes, in such a step. [s]"""
    host_context_seconds: float = 0.0
    """What context parallelism adds to it. [s]"""
    deterministic: bool = False
    """Whether PyTorch fills every new tensor before its use (``torch.use_deterministic_algorithms``)."""
    host_filling_share: float = 0.0
    """What launching those fills adds to the host time of a layer, over the rest of it. [-]"""

    # Sharded experts
    stacked_experts: bool = False
    """Whether a layer's experts are one parameter that shards cut by whole experts, the last ones padded."""

    # Device memory beside the tensors
    framework_bytes: float = 2.0 * 2**30
    """Context, communicators and workspaces, not seen by the allocator. [byte]"""
    reserve_share: float = 0.05
    """Allocator reserve as a share of activations and workspace. [-]"""
    held_share: float = 0.0
    """The same with what an allocator of fixed segments keeps free, and gives back where the device is full;
    0 where it keeps no more than its slack. [-]"""
    graphed: Literal["", "mlp", "router", "attention", "passes"] = ""
    """What runs as a CUDA graph, whose memory serves nothing else: each layer's feed-forward (``mlp``), its
    ``router`` and what sorts tokens before experts, its ``attention`` too, all ``passes``, or nothing."""
    retry_seconds: float = 0.0
    """Time of a step whose buffers find no room beside cached blocks: the allocator gives these back and asks
    for them again; 0 where segments can grow. [s]"""
    full_message_seconds: float = 0.0
    """Time that each message between stages blocks on a device that is nearly full. [s]"""
    loss_beside_backward: bool = False
    """Whether the loss's buffers are still held while the first layer's backward runs."""
    memory_spread: float = 0.025
    """Spread of the logarithm of measured over predicted memory. [-]"""
