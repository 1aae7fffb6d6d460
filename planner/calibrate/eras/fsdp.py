"""PyTorch's own data parallelism, plain or sharded, under many trainers."""

from __future__ import annotations

from typing import Final

from planner.calibrate.eras._common import EAGER, USUAL
from planner.calibrate.eras._era import Era, Settings
from planner.calibrate.eras.statements import COMPILED_LOSS

FSDP1: Final[Settings] = {
    **EAGER,
    "chained_rope": "halves",
    "attention_copies": False,
    "hidden_collective_traffic": 5.0,
    "padded_rows": False,
    "fp32_context_gradients": False,
    "merges_each_step": False,
}

RING_SELF_ATTENTION_2021: Final = Era(
    "ring-self-attention-2021",
    r"ring.?self",
    "fsdp",
    "Colossal-AI's sequence parallelism (arXiv:2105.13120): scores kept, no flash attention",
    traits={**FSDP1, "attention": "unfused", "early_stop": False},
    precision="fp16",
    zero="3",
    recompute="full",
    sequence_parallel=False,
    no_flash="unfused",
)

SEQUENCE_2023: Final = Era(
    "sequence-2023",
    r"dist.?flash|ulysses|ring.?attention",
    "fsdp",
    "sequence-parallel research code on eager PyTorch (arXiv:2310.03294, 2309.14509)",
    traits={**FSDP1, "early_stop": False, "cp_slowdown": 1.0, "cp_exposed": 0.1, "recompute_gathers": True},
    zero="3",
    recompute="full",
    sequence_parallel=False,
)

LLM_FOUNDRY_2023: Final = Era(
    "llm-foundry-2023",
    r"llm.?foundry|composer|mosaic",
    "fsdp",
    "MosaicML's FSDP trainer, Triton attention; recompute stops early on PyTorch 2.1 (v0.3, Hopper)",
    traits={
        **FSDP1,
        "attention": "triton-2023",
        "early_stop": False,
        "fused_norm": True,
        "fused_activation": True,
        "logit_bytes": 6.0,
        "loss_traffic": 12.0,
    },
    hopper_traits={"early_stop": True},
    zero="3",
    no_flash="unfused",
    lacks=("tp", "pp"),
)

LITGPT: Final = Era(
    "litgpt",
    r"lit.?gpt|lightning",
    "fsdp",
    "LitGPT on PyTorch FSDP or DDP, eager unless a compiler is named; keys and values are repeated "
    "for all query heads (litgpt/model.py)",
    traits={**FSDP1, "attention_copies": True},
    zero="3",
    no_flash="unfused",
    lacks=("tp", "pp"),
)

DATA_PARALLEL: Final = Era(
    "data-parallel",
    r"\bddp\b|distributed.?data.?parallel|nano.?gpt",
    "fsdp",
    "PyTorch's DistributedDataParallel: whole models, gradients all-reduced behind backward",
    traits={**USUAL, **FSDP1},
    zero="0",
    no_flash="unfused",
    lacks=("tp", "pp"),
    measured=False,
)

XLA: Final = Era(
    "xla",
    r"\bjax\b|max.?text|levanter|easy.?lm|\bt5x\b|\bpax(ml)?\b|gspmd|\bxla\b|pathways|\balpa\b",
    "fsdp",
    "JAX programs that XLA compiles and shards as FSDP does",
    traits={**USUAL, "attention": "flash-2", **COMPILED_LOSS, "logit_bytes": 4.0, "reduce_dtype": "bf16"},
    zero="3",
    sequence_parallel=False,
    no_flash="unfused",
    measured=False,
)

FSDP: Final = Era(
    "fsdp",
    r"fsdp|accelerate|pytorch|transformers|\bhf\b|\btrl\b|axolotl|hugging|torch.?tune|llama.?factory|unsloth|"
    r"\bpeft\b|\bolmo|modalities|xtuner|fairseq|fairscale|metaseq|foundation.?model|vescale|sage.?maker|\bsmp\b|"
    r"optimum",
    "fsdp",
    "PyTorch FSDP, eager unless a compiler is named",
    traits=FSDP1,
    zero="3",
    no_flash="unfused",
)
