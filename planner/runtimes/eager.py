"""Transformers' models under PyTorch's own kernels, one by one: what runs, and the host's time, by count."""

from __future__ import annotations

from typing import Final

LAUNCH_SECONDS: Final = 12.5e-6
"""Host time of one operation of eager PyTorch, Python and dispatcher included: 5 to 25 microseconds. [s]

References
----------
.. [1] https://jiahuanglin.xyz/all_lessons/gpu_kernel_serving/18_pytorch_to_kernel.html: what is passed
   through between a Python statement and its kernel.
"""

LAYER_LAUNCHES: Final = 120.0
"""Operations of a transformer's layer, both passes: forward eight of each norm, seven products, ten of the
rotary embedding, attention, the gate and two sums make 40; backward has two for each. [-]

References
----------
.. [1] Hugging Face, transformers 5.23.0, ``models/llama/modeling_llama.py``, ``LlamaDecoderLayer``.
"""

HOST: Final = {"host_layer_seconds": LAYER_LAUNCHES * LAUNCH_SECONDS, "host_step_seconds": 0.005}
"""Traits of a runtime whose layers run so. [s]

Of a step's end, a read of the loss and of the gradients' norm, and the optimizer's multi-tensor kernels, are
5 ms: the fitted 20 ms of Megatron-LM's tests hold its logging too.
"""

EAGER: Final = {
    "attention": "flash-2",
    "tensor_library": "plain",
    "score_bytes": 6.0,
    "fused_norm": False,
    "fused_activation": False,
    "fused_rope": False,
    "rotary_chain": "halves",
    "vocab_parallel_loss": False,
    "adapters": "peft",
    "fused_weight_gradient": False,
    "checkpointing": "early-stop",
    "experts": "stacked",
    **HOST,
}
"""Traits of transformers' models as DeepSpeed and Accelerate run them, but for loss and sharding."""
