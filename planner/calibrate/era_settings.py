"""What several eras have in common: traits of kernels, gradients and overlap."""

from __future__ import annotations

from typing import Final

from planner.calibrate.era import Settings

# What a code without a run is taken to reach: the geometric mean over those with runs, 1 where nothing was
# fitted, whose logarithms spread by 0.06. Recipes, whose rates stand with the accelerators, do not count.
USUAL: Final[Settings] = {"compute_derate": 0.96}
EAGER: Final[Settings] = {
    "fused_norm": False,
    "fused_activation": False,
    "fused_rope": False,
    "vocab_parallel_loss": False,
    "fused_weight_gradient": False,
    "step_copies": "never",
}
# The loss is a chain of fp32 kernels (megatron/mpu/cross_entropy.py): forward the cast, the largest,
# the difference, the power, the sum and the quotient, 6 + 4 + 8 + 8 + 4 + 8 bytes; back the product and the
# cast, 8 + 6.
GPT_2021: Final[Settings] = {
    "loss_traffic": 52.0,
    "attention": "fused-softmax",
    "fused_rope": False,
    "dropout": True,
    "fused_weight_gradient": False,
    "tp_exposed": 1.0,
    "dp_exposed": 1.0,
    "step_copies": "never",
}
HALF: Final[Settings] = {"gradient_dtype": "fp16", "reduce_dtype": "fp16"}
HALF_GRADIENTS: Final[Settings] = {"gradient_dtype": "bf16", "reduce_dtype": "bf16"}
# Transformer Engine (v2.9, pytorch/cross_entropy.py) writes the gradient over the 16-bit logits; one copy is
# allowed for. It reads twice, writes once and scales the gradient: 6 + 4 bytes of traffic. The recipes hold
# weights in low bits alone (fp8_param_gather), and in bf16 the optimizer takes gradients as they are
# (use_precision_aware_optimizer, scripts/performance/utils/overrides.py); LoRA adapts linear_qkv alone
# (llama3_llm_finetune.py).
BRIDGE: Final[Settings] = {
    **HALF_GRADIENTS,
    "logit_bytes": 4.0,
    "loss_traffic": 10.0,
    "low_bit_weights": "alone",
    "step_copies": "low-bit",
    "message_multiprocessors": 0.0,
    "adapts": "qkv",
    "dispatcher": "fused",
}
MEGATRON_ON_ZERO: Final[Settings] = {
    **GPT_2021,
    "fused_norm": True,
    "fused_activation": True,
    "early_stop": False,
}
IN_HOUSE: Final[Settings] = {
    **EAGER,
    "attention": "flash-2",
    "gradient_dtype": "bf16",
    "reduce_dtype": "bf16",
    "logit_bytes": 17.5,
    "reserve_share": 0.3,
    "tp_exposed": 1.0,
    "dp_exposed": 1.0,
}
# Memory counted in https://github.com/Aleph-Alpha/scaling; half a GiB is a context with its kernels, of which
# what ran out in the sweep can tell no more than that it is small.
SWEEP: Final[Settings] = {
    **IN_HOUSE,
    "all_reduced_bytes": 4.0,
    "sequence_regather": False,
    "unfused_norm_bytes": 6.0,
    "logit_bytes": 16.0,
    "loss_beside_backward": True,
    "bucket_elements": 5e8,
    "framework_bytes": 2.0**29,
    "reserve_share": 0.3,
    "memory_spread": 0.03,
}
OVERLAPPED: Final[Settings] = {**IN_HOUSE, "dp_exposed": 0.3, "logit_bytes": 8.0}
# https://github.com/InternLM/InternEvo, internlm/model and solver/optimizer/hybrid_zero_optim.py.
INTERNEVO: Final[Settings] = {
    **OVERLAPPED,
    "fused_norm": True,
    "norm_reads_fp32": True,
    "fused_rope": True,
    "vocab_parallel_loss": True,
    "owned_parameters": True,
    "all_reduced_bytes": 2.0,
    "step_gathers_wait": True,
}
FSDP1: Final[Settings] = {
    **EAGER,
    "attention_copies": False,
    "hidden_collective_traffic": 5.0,
    "padded_rows": False,
    "fp32_context_gradients": False,
}
