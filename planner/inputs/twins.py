"""Models that are built like others: names that tell only how they were trained, and shapes used again."""

from __future__ import annotations

import re
from typing import Final

TUNED: Final = re.compile(
    r"-(?:instruct|chat|base|hf|it|pt|sft|thinking|coder|math|0324|0528|2507|bf16|unsloth)(?=-|$)"
)
"""Words of a name that tell how a model was trained, not how it is built."""

TWINS: Final = {
    "deepseek-r1-distill-llama-8b": "llama3.1-8b",
    "deepseek-r1-distill-llama-70b": "llama3.3-70b",
    "deepseek-r1-distill-qwen-7b": "qwen2.5-7b",
    "deepseek-r1-distill-qwen-14b": "qwen2.5-14b",
    "deepseek-r1-distill-qwen-32b": "qwen2.5-32b",
    "deepseek-v3.1": "deepseek-v3",
    "hermes-3-llama-3.1-8b": "llama3.1-8b",
    "hermes-3-llama-3.1-70b": "llama3.1-70b",
    "glm-4.6": "glm-4.5",
    "qwq-32b": "qwen2.5-32b",
    "qwen2-0.5b": "qwen2.5-0.5b",
    "qwen2-1.5b": "qwen2.5-1.5b",
    "qwen2-7b": "qwen2.5-7b",
    "qwen2-72b": "qwen2.5-72b",
    "tinyllama-1.1b-v1.0": "tinyllama-1.1b",
    "tinyllama-1.1b-intermediate-step-1431k-3t": "tinyllama-1.1b",
    "mixtral-8x7b-v0.1": "mixtral-8x7b",
    "mimo-7b-rl": "mimo-7b",
    "granite-3.1-2b": "granite-3.0-2b",
    "granite-3.1-8b": "granite-3.0-8b",
    "granite-3.3-2b": "granite-3.0-2b",
    "granite-3.3-8b": "granite-3.0-8b",
    "mistral-7b-sft-beta": "mistral-7b-v0.1",
    "mistral-7b-sft-constitutional-ai": "mistral-7b-v0.1",
    "open-llama-7b": "llama-7b",
    "open-llama-7b-v2": "llama-7b",
    "open-llama-13b": "llama-13b",
    "qwen2.5-7b-rope-300k": "qwen2.5-7b",
    "smollm3-3b-checkpoints": "smollm3-3b",
    "vicuna-7b-v1.5": "llama2-7b",
    "vicuna-13b-v1.5": "llama2-13b",
    "yi-1.5-6b": "yi-6b",
    "yi-1.5-9b": "yi-9b",
    "yi-1.5-34b": "yi-34b",
    "zephyr-7b-alpha": "mistral-7b-v0.1",
    "zephyr-7b-beta": "mistral-7b-v0.1",
    "zephyr-7b-sft-full": "mistral-7b-v0.1",
}
"""Models that have another's shape: their ``config.json`` on https://huggingface.co says the same sizes."""
