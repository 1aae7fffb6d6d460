"""Recipes of NeMo and Megatron-Bridge on Megatron-core."""

from __future__ import annotations

from typing import Final

from planner.calibrate.eras._common import BF16_GRADIENTS
from planner.calibrate.eras._era import Era, Settings
from planner.techniques.settings import SETTINGS

# The recipes take Transformer Engine's loss, hold weights in low bits alone (fp8_param_gather), and in bf16
# the optimizer takes gradients as they are (use_precision_aware_optimizer,
# scripts/performance/utils/overrides.py).
BRIDGE: Final[Settings] = {
    **BF16_GRADIENTS,
    **SETTINGS["loss_kernel"].values["te"],
    "low_bit_weights": "alone",
    "step_copies": "low-bit",
    "message_multiprocessors": 0.0,
    "dispatcher": "fused",
}

ADAPTED: Final[Settings] = {"lora_targets": "linear_qkv"}
"""LoRA of the performance recipes (Megatron-Bridge, ``scripts/performance/configs/llama/
llama3_llm_finetune.py``)."""

DOCUMENT: Final = 256
"""Tokens of a document of SQuAD, question and answer included. [element]

Its 98,169 examples take 94.06 MiB, 1,005 bytes each [1]_; some 150 of them are identifiers, titles and
positions. Of English text, Llama 2's tokenizer makes a token of 3.17 characters and Llama 3's of 3.94 [2]_:
270 or 217 tokens.

References
----------
.. [1] TensorFlow Datasets, "squad," https://www.tensorflow.org/datasets/catalog/squad.
.. [2] Llama Team, "The Llama 3 Herd of Models," arXiv:2407.21783, 2024, sec. 3.2.
"""

ON_SQUAD: Final[Settings] = {**ADAPTED, "document_tokens": DOCUMENT}
"""Fine-tuning of NeMo's performance pages: on SQuAD, packed to sequences of 4,096 tokens, each document
attending to itself alone."""

MEGATRON_BRIDGE_GRAPH: Final = Era(
    "megatron-bridge-graph",
    r"megatron.?bridge.*\b(26\.(0[6-9]|1\d)|2[7-9]\.\d\d)(?!.*partial graphs)",
    "megatron-bridge",
    "recipes since container 26.06: a CUDA graph of the whole iteration, hybrid expert dispatch, "
    "16-bit gradients, Transformer Engine's loss; expert messages run beside compute",
    traits={**BRIDGE, "overlaps_experts": True, "graphed": "passes"},
    gpus=r"b[123]00",
    fine_tuning=ADAPTED,
)

MEGATRON_BRIDGE_EARLY: Final = Era(
    "megatron-bridge-early",
    r"megatron.?bridge.*\b(25\.\d\d|26\.0[1-3]|v?0\.[1-3](\.\d)?)\b",
    "megatron-bridge",
    "recipes on Blackwell before container 26.04, which brought Transformer Engine 2.14 for 2.12 and "
    "cuDNN 9.20 for 9.18 (Megatron-Bridge, docs/releases/software-versions.md)",
    traits=BRIDGE,
    gpus=r"b[123]00",
    fine_tuning=ADAPTED,
)

MEGATRON_BRIDGE: Final = Era(
    "megatron-bridge",
    r"megatron.?bridge",
    "megatron-bridge",
    "recipes: overlap on, forced expert balance, 16-bit gradients, TE's loss, mock data in tuning too",
    traits=BRIDGE,
    fine_tuning=ADAPTED,
)

NEMO_2025: Final = Era(
    "nemo-2025",
    r"nemo.*\b(2\.\d|2[5-9]\.\d\d)|nemo-?2\b",
    "megatron-bridge",
    "NeMo 2, whose recipes became Megatron-Bridge's",
    traits=BRIDGE,
    fine_tuning=ON_SQUAD,
)

NEMO_2024: Final = Era(
    "nemo-2024",
    r"nemo",
    "megatron-bridge",
    "NeMo with Megatron-core before Megatron-Bridge, loss not fused; a blank vpp is fully interleaved",
    traits={
        **BF16_GRADIENTS,
        "step_copies": "never",
        "loss_traffic": 28.0,
        "message_multiprocessors": 0.0,
    },
    single_layers="usual",
    fine_tuning=ON_SQUAD,
)
