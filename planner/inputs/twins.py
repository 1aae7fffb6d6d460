"""Models that are built like others: names that tell only how they were trained, and shapes used again."""

from __future__ import annotations

import re
from typing import Final

TUNED: Final = re.compile(
    r"-(?:instruct|chat|base|hf|it|pt|sft|thinking|coder|math|0324|0528|2507|bf16|unsloth)(?=-|$)"
)
"""Words of a name that tell how a model was trained, not how it is built."""

_SHAPES: Final = {
    "bloom-1b1": "bloomz-1b1",
    "bloom-1b7": "bloomz-1b7",
    "bloom-3b": "bloomz-3b",
    "bloom-560m": "bloomz-560m",
    "bloom-7b1": "bloomz-7b1 bloomz-7b1-mt",
    "deepseek-llm-7b": "deepseek-coder-7b-v1.5 deepseek-math-7b",
    "deepseek-r1-distill-qwen-1.5b": "deepscaler-1.5b-preview",
    "deepseek-v3": "deepseek-v3.1",
    "gemma-2b": "gemma-1.1-2b",
    "gemma-7b": "gemma-1.1-7b",
    "glm-4.5": "glm-4.6 glm-4.7",
    "glm-4.5v": "glm-4.6v",
    "granite-3.0-2b": "granite-3.1-2b granite-3.3-2b",
    "granite-3.0-8b": "granite-3.1-8b granite-3.3-8b",
    "jamba-v0.1": "ai21-jamba-mini-1.6 ai21-jamba-mini-1.7",
    "llama-13b": "longchat-13b-16k open-llama-13b vicuna-13b-v1.1 vicuna-13b-v1.3",
    "llama-7b": "longchat-7b-16k open-llama-7b open-llama-7b-v2 vicuna-7b-v1.1 vicuna-7b-v1.3",
    "llama2-13b": "vicuna-13b-v1.5",
    "llama2-7b": "elyza-japanese-llama-2-7b llama-2-7b-32k vicuna-7b-v1.5",
    "llama3-8b": "llama-3-open-ko-8b",
    "llama3.1-405b": "hermes-4-405b",
    "llama3.1-70b": "hermes-3-llama-3.1-70b hermes-4-70b llama-3.1-nemotron-70b",
    "llama3.1-8b": "deepseek-r1-distill-llama-8b hermes-3-llama-3.1-8b llama-guard-3-8b",
    "llama3.3-70b": "deepseek-r1-distill-llama-70b",
    "mimo-7b": "mimo-7b-rl",
    "mistral-7b-v0.1":
        "mistral-7b-sft-beta mistral-7b-sft-constitutional-ai zephyr-7b-alpha zephyr-7b-beta "
        "zephyr-7b-sft-full",
    "mistral-nemo-12b": "mistral-nemo-2407",
    "mistral-small-24b-2501": "devstral-small-2505 devstral-small-2507 magistral-small-2506",
    "mixtral-8x7b": "mixtral-8x7b-v0.1",
    "olmo3-32b": "olmo-3.1-32b olmo-3.1-32b-think",
    "phi3-medium-4k": "phi-3-medium-128k",
    "phi3-mini-4k": "phi-3-mini-128k phi-3.5-mini",
    "phi4": "phi-4-reasoning phi-4-reasoning-plus",
    "pythia-1.4b": "pythia-1.4b-deduped",
    "pythia-12b": "pythia-12b-deduped",
    "pythia-160m": "pythia-160m-deduped",
    "pythia-1b": "pythia-1b-deduped",
    "pythia-2.8b": "pythia-2.8b-deduped",
    "pythia-410m": "pythia-410m-deduped",
    "pythia-6.9b": "pythia-6.9b-deduped",
    "qwen2.5-0.5b": "qwen2-0.5b",
    "qwen2.5-1.5b": "openreasoning-nemotron-1.5b qwen2-1.5b",
    "qwen2.5-14b": "deepseek-r1-distill-qwen-14b openreasoning-nemotron-14b",
    "qwen2.5-32b":
        "deepseek-r1-distill-qwen-32b openreasoning-nemotron-32b openthinker-32b qwq-32b qwq-32b-preview "
        "s1-32b s1.1-32b sky-t1-32b-preview skywork-or1-32b",
    "qwen2.5-72b": "kimi-dev-72b qwen2-72b",
    "qwen2.5-7b":
        "deepseek-r1-distill-qwen-7b openreasoning-nemotron-7b openthinker-7b qwen2-7b "
        "qwen2.5-7b-rope-300k skywork-or1-7b",
    "qwen3-14b": "hermes-4-14b",
    "qwen3-8b": "deepseek-r1-0528-qwen3-8b",
    "smollm3-3b": "smollm3-3b-checkpoints",
    "solar-10.7b": "solar-10.7b-v1.0",
    "starcoder-15b": "starcoderbase starcoderplus",
    "tinyllama-1.1b": "tinyllama-1.1b-intermediate-step-1431k-3t tinyllama-1.1b-v1.0",
    "yi-34b": "yi-1.5-34b",
    "yi-6b": "yi-1.5-6b",
    "yi-9b": "yi-1.5-9b",
}  # fmt: skip
"""Shapes of the zoo to the names of further models that have them: their ``config.json`` on
https://huggingface.co says the same sizes."""

TWINS: Final = {name: shape for shape, names in _SHAPES.items() for name in names.split()}
"""Models that have another's shape."""


def is_twin(text: str) -> bool:
    """Return whether a name is that of a model with another's shape, and not of a tuned one of that name."""
    name = text.strip().rstrip("/").rpartition("/")[2].lower().replace("___", ".")
    spellings = {spelt for word in (name, name.replace("_", "-")) for spelt in (word, TUNED.sub("", word))}
    return not spellings.isdisjoint(TWINS)
