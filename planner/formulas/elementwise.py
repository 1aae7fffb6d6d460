"""Bytes of device memory that memory-bound operators move, for one element, forward and backward.

The numbers follow from counting the 2-byte reads and writes of each kernel; where a chain of separate kernels
runs, each one counts. They were checked against operator traces of public code, as cited in each table.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from planner.numeric import Num, maximum


class Traffic(NamedTuple):
    """Bytes moved for one element.

    Parameters
    ----------
    forward, backward : Num
        Of each pass. [byte]
    kernel : str
        The measured kernel whose rate it has, where that is not the one of its name: one kernel does not run
        as a chain of them does.
    strided : (Num, Num), optional
        Kernels of either pass that compute the place of each element by itself (`STRIDED_RATE`). [-]
    """

    forward: Num
    backward: Num
    kernel: str = ""
    strided: tuple[Num, Num] | None = None

    def beside(self, other: Traffic) -> Traffic:
        """Return what both move, by kernels one after another."""
        (here, back), (there, again) = self.strided or (0.0, 0.0), other.strided or (0.0, 0.0)
        strided = (here + there, back + again) if self.strided or other.strided else None
        return Traffic(self.forward + other.forward, self.backward + other.backward, strided=strided)


STRIDED_RATE: Final = 1.9e9
"""Elements that a multiprocessor takes a second in a PyTorch kernel on a part of a tensor or a repeated
vector: an estimate. [1/s]

Such a kernel computes where each element lies and moves it alone, where others move eight at once
(``aten/src/ATen/native/cuda/CUDALoops.cuh``). On an H200 a sum of two 2-byte tensors reached 1.39 TB/s and
that with a repeated bias 0.62 (tile-ai/TileOPs#537), large sums 3.4 (#512 there): in proportion 1.5 TB/s of 4
to 6 bytes, 250 to 380e9 elements a second on 132 multiprocessors, of which the lower is taken. GPT-OSS on
H100, B200 and B300 asks for 1.5 to 2.3e9.
"""

STRIDED_BYTES: Final = 4.0
"""Bytes of an element, read and written, that are counted for such a kernel already. [byte]"""


def strided_seconds(multiprocessors: Num, bandwidth: Num) -> Num:
    r"""Seconds that a strided kernel takes for an element beyond those of the bytes that it moves. [s]

    .. math:: t = \max\left(0, \frac{1}{M R} - \frac{B}{W}\right)

    Parameters
    ----------
    multiprocessors : Num
        How many :math:`M` the device has; infinite where that is not known: bytes alone count. [-]
    bandwidth : Num
        Of its memory, :math:`W`. [byte/s]

    References
    ----------
    .. [1] S. Williams, A. Waterman, D. Patterson, "Roofline," CACM 52(4), 2009, doi:10.1145/1498765.1498785:
       the slower of instructions and memory.
    """
    return maximum(0.0, 1.0 / (multiprocessors * STRIDED_RATE) - STRIDED_BYTES / bandwidth)


NORM: Final = {True: Traffic(4.0, 8.0), False: Traffic(39.0, 86.0, "residual")}
"""Root-mean-square or layer norm, by whether it is one kernel. [byte]

Fused: forward reads and writes the element; backward reads the input and the gradient, writes the gradient
of the input and of the weight's partial sums. Unfused: eight elementwise kernels in fp32 forward, twice that
backward (J. Hagemann et al., "Efficient Parallelization Layouts," arXiv:2311.05610, sec. 4.2: a fused norm
is worth 14 percentage points of MFU).
"""

NORM_CAST: Final = Traffic(8.0, 14.0)
"""What a fused norm moves more where it reads a copy of its input in fp32. [byte]

Forward the copy is written and read; backward both kernels, of the input's gradient and of the weight's, read
it, and the gradient is written in fp32 and cast back (InternEvo, ``internlm/model/modeling_internlm.py``,
around the mixed-type norm of NVIDIA's apex).
"""

RESIDUAL: Final = {True: Traffic(6.0, 2.0), False: Traffic(6.0, 4.0)}
"""Addition to the residual stream, by whether backward's addition is fused into a neighbour. [byte]"""

ZERO_EXPERTS: Final = Traffic(6.0, 8.0)
"""A token times its weight, added to what other experts made of it. [byte]

Forward token and sum are read and the sum is written; backward token and gradient are read for the weight's
gradient, and the token's is read and written (arXiv:2509.01322, eq. 1: an expert that gives the token back).
"""

SINKS: Final = Traffic(4.0, 6.0)
"""Attention's result times a factor of its head, which has a sink; backward reads both and a gradient. [byte]

One compiled kernel (torchtitan, ``models/gpt_oss/model.py``, ``apply_attention_sink_rescale``).
"""

EVERY_EXPERT: Final = Traffic(8.0, 16.0)
"""A token for each expert there is, times its score, and the sum of what they make of it. [byte]

Forward the copy is written, read and written times the score, and results are read for the sum; backward the
sum's gradient is written out, the product's reads copy, score and gradient for either of the two, and the
copies' gradients are summed (transformers, ``models/llama4/modeling_llama4.py``, ``Llama4TextMoe``).
"""

DROPOUT: Final = Traffic(5.0, 5.0)
"""Dropout with its byte mask, beside the addition (arXiv:2205.05198, sec. 4). [byte]"""

NOTHING: Final = Traffic(0.0, 0.0)
"""What a kernel moves more that is part of another. [byte]"""

ADAPTED_INPUT: Final = Traffic(0.0, 6.0)
"""What an adapter moves of its input beside its products: backward its gradient is added to the base's.
[byte]
"""

ADAPTED_OUTPUT: Final = Traffic(10.0, 4.0)
"""What an adapter moves of its output: forward it is scaled, 2 + 2, and added to the base's, 2 + 2 + 2;
backward its gradient is scaled (NVIDIA, Megatron-Bridge 067f987d, ``peft/lora_layers.py``; Hugging Face,
PEFT, ``tuners/lora/layer.py``). [byte]
"""

ROTARY: Final = {True: Traffic(4.0, 4.0, "copy"), False: Traffic(11.0, 11.0)}
"""Rotary embedding of an element of queries or keys, by whether it is one kernel. [byte]

A chain that a compiler scripts moves less than PyTorch's own.
"""

ROTARY_HALVES: Final = Traffic(20.0, 30.0, strided=(3.5, 3.5))
"""The same where each of PyTorch's operators is a kernel, by halves. [byte]

One half is negated and both are joined, 2 + 4; two products with a cosine and a sine, 4 each, are added, 6.
Backward two products, 4 each; the negated half, 2; two halves copied into zeros, 4 each; three gradients
added, 12 (Hugging Face Transformers, ``models/llama/modeling_llama.py``, ``apply_rotary_pos_emb``). The table
of angles has no heads and halves are parts: forward two products, half a negation and the joining are kernels
of the slow kind, backward two products and three halves.
"""

ROTARY_COMPLEX: Final = Traffic(20.0, 20.0)
"""The same as complex numbers in fp32: each pass casts, multiplies and casts back, 6 + 8 + 6. [byte]

A complex number is 8 bytes wide, so that its product is bound by memory though the table of angles has no
heads (torchtitan, ``models/common/rope.py``).
"""

HEAD_COPIES: Final = {True: Traffic(8.0, 4.0, "copy"), False: Traffic(4.0, 0.0, "copy")}
"""The output copied and, where there are fewer of them, keys and values repeated to all query heads. [byte]

For an element of queries: two tensors are written, and one read and written; backward the gradients of two
are read and summed.
"""

GATED: Final = {True: Traffic(6.0, 10.0, "residual"), False: Traffic(10.0, 16.0)}
"""Gated activation, for an element of the inner width, by whether it is one kernel. [byte]

Fused: forward reads gate and up and writes the product; backward reads those two and a gradient and writes
two gradients (N. Shazeer, arXiv:2002.05202).
"""

LOW_BIT_STORE: Final = Traffic(6.0, 6.0, "copy")
"""A gated activation's input cast to fp8 until backward, and back, for an element of the inner width. [byte]

Two copies that no kernel is one with, of both halves: 2 + 1 and 1 + 2 (Megatron-LM,
``megatron/core/fusions/fused_bias_swiglu.py``, ``SwiGLUFunction``).
"""

CLAMP: Final = Traffic(16.0, 20.0, strided=(2.0, 2.0))
"""What bounds on gate and up move beside a fused gated activation, for an element of the inner width. [byte]

Both halves, parts of one tensor, are read and written bounded, joined and read again; backward masks and
joins their gradients (Megatron-LM, ``megatron/core/fusions/fused_bias_geglu.py``,
``weighted_bias_quick_geglu_impl``).
"""

BOUNDED_BYTES: Final = 8.0
"""What a chain of kernels keeps of such an activation beside its input and result, for each element of the
inner width: the bounded gate, its sigmoid, their product, and the other half with its offset, in 16 bit
(Hugging Face Transformers v5.23.0, ``models/gpt_oss/modeling_gpt_oss.py``, ``_apply_gate``). [byte]"""

EXPERT_BIAS: Final = {
    False: Traffic(10.0, 18.0, strided=(1.0, 2.0)),
    True: Traffic(24.0, 44.0, strided=(2.0, 3.0)),
}
"""What the bias of the experts' second product moves, for an element of the width of the model. [byte]

Each expert's is weighed and added by itself, and all are joined; with probabilities in fp32, which fused
dispatchers give (True), every term is made in fp32 (Megatron-LM, ``core/transformer/moe/experts.py``,
``_apply_bias``). Of the 28 and 68 of both passes the forward is taken to move three of eight. A vector times
a column is repeated both ways, once forward and for either's gradient; where types meet the sum and its
gradient's cast are kernels of the slow kind too.
"""

PLAIN: Final = {True: Traffic(4.0, 6.0, "copy"), False: Traffic(6.0, 10.0)}
"""Activation of a feed-forward without gate, by whether bias and activation are one kernel. [byte]"""

SQUARED_RELU: Final = {True: PLAIN[True], False: Traffic(8.0, 20.0)}
"""The square of what is above zero, by whether it is one kernel. [byte]

One by one: both are read and written; backward the first power, its double and the product with the
gradient, 4 + 4 + 6, then the mask, 6 (NVIDIA, NeMo 2, ``nemo/collections/llm/fn/activation.py``,
``squared_relu``; PyTorch, ``torch/csrc/autograd/FunctionsManual.cpp``, ``pow_backward``).
"""

XIELU: Final = {True: PLAIN[True], False: Traffic(58.0, 84.0)}
"""xIELU, by whether it is one kernel. [byte]

One by one, from what each kernel reads and writes: forward two products with the input and one with a scalar,
a sum, a minimum, its exponential, a difference, two products with scalars, a sum, the mask and the choice;
backward their gradients, with two sums of products for the weights (Hugging Face, Transformers v5.23.0,
``activations.py``, ``XIELUActivation._xielu_python``; N. Huang et al., arXiv:2411.13010).
"""

XIELU_BYTES: Final = 9.0
"""Bytes that this chain keeps of each element: its input, a product with it, the exponential, what is left of
that and the mask. [byte]"""

PLAIN_KINDS: Final = {"relu2": SQUARED_RELU, "xielu": XIELU}
"""Activations of a feed-forward without gate that move other than the usual."""

MODULATE: Final = {True: Traffic(4.0, 6.0), False: Traffic(8.0, 14.0)}
"""Scale and shift of a norm's result by what a sample's vector says, by whether it is one kernel. [byte]

One by one: forward a product and a sum, 4 each. Backward the sum for the shift reads 2; the element's
gradient is read and written, 4; for the scale a product reads 4 and writes 2, and a sum reads 2 (W. Peebles,
S. Xie, arXiv:2212.09748, sec. 3.2, adaLN). Fused: element and gradient are read, and one is written.
"""

GATE: Final = {True: Traffic(4.0, 6.0), False: Traffic(4.0, 12.0)}
"""A result times the gate that a sample's vector says, by whether it is one kernel. [byte]

Backward the result's gradient, 4, and the gate's: 4 and 2 for the product, 2 for its sum (the same,
adaLN-Zero).
"""

SQUARED_ERROR: Final = Traffic(14.0, 18.0)
"""Mean squared error of a 16-bit result in fp32: cast, 6, and 8 read; backward 12 and a cast, 6. [byte]"""

EMBEDDING: Final = Traffic(4.0, 8.0)
"""Lookup, and the sorted sum of its gradient. [byte]"""

BOUND: Final = Traffic(12.0, 14.0)
"""Bound ``c tanh(x / c)`` on a 2-byte element: a division, tanh and a product, each reading and writing;
backward a product, tanh's, which reads its result too, and a division. [byte]

Gemma 2 and 4: transformers, ``models/gemma2/modeling_gemma2.py``, ``Gemma2ForCausalLM``; Megatron-Bridge,
``models/gemma/gemma2_provider.py``, ``logit_softcapping``.
"""

BOUND_KEPT: Final = 2.0
"""Bytes of an element that it keeps: tanh's result. [byte]"""

MEASURED: Final = {
    "norm": NORM[True],
    "residual": RESIDUAL[True],
    "gated": GATED[False],
    "rotary": ROTARY_HALVES,
}
"""Kernels that are measured by themselves, each as it is priced. [byte]

A measured rate is one of these bytes over the time that the kernels took, so that a price is that time
whatever else they move: the chain of a rotary embedding in PyTorch's own operators moves 24 bytes forward.
"""
