"""Models that are built like others: names that tell only how they were trained, and shapes used again."""

from __future__ import annotations

import re
from typing import Final

TUNED: Final = re.compile(
    r"-(?:instruct|chat|base|hf|it|pt|sft|thinking|coder|math|0324|0528|2507|bf16|unsloth)(?=-|$)"
)
"""Words of a name that tell how a model was trained, not how it is built."""

TWINS: Final = {
    "bloomz-1b1": "bloom-1b1",
    "bloomz-1b7": "bloom-1b7",
    "bloomz-3b": "bloom-3b",
    "bloomz-560m": "bloom-560m",
    "bloomz-7b1": "bloom-7b1",
    "bloomz-7b1-mt": "bloom-7b1",
    "deepscaler-1.5b-preview": "deepseek-r1-distill-qwen-1.5b",
    "deepseek-coder-7b-v1.5": "deepseek-llm-7b",
    "deepseek-math-7b": "deepseek-llm-7b",
    "deepseek-r1-0528-qwen3-8b": "qwen3-8b",
    "deepseek-r1-distill-llama-70b": "llama3.3-70b",
    "deepseek-r1-distill-llama-8b": "llama3.1-8b",
    "deepseek-r1-distill-qwen-14b": "qwen2.5-14b",
    "deepseek-r1-distill-qwen-32b": "qwen2.5-32b",
    "deepseek-r1-distill-qwen-7b": "qwen2.5-7b",
    "deepseek-v3.1": "deepseek-v3",
    "elyza-japanese-llama-2-7b": "llama2-7b",
    "gemma-1.1-2b": "gemma-2b",
    "gemma-1.1-7b": "gemma-7b",
    "glm-4.6": "glm-4.5",
    "granite-3.1-2b": "granite-3.0-2b",
    "granite-3.1-8b": "granite-3.0-8b",
    "granite-3.3-2b": "granite-3.0-2b",
    "granite-3.3-8b": "granite-3.0-8b",
    "hermes-3-llama-3.1-70b": "llama3.1-70b",
    "hermes-3-llama-3.1-8b": "llama3.1-8b",
    "llama-2-7b-32k": "llama2-7b",
    "llama-3-open-ko-8b": "llama3-8b",
    "llama-3.1-nemotron-70b": "llama3.1-70b",
    "llama-guard-3-8b": "llama3.1-8b",
    "longchat-13b-16k": "llama-13b",
    "longchat-7b-16k": "llama-7b",
    "mimo-7b-rl": "mimo-7b",
    "mistral-7b-sft-beta": "mistral-7b-v0.1",
    "mistral-7b-sft-constitutional-ai": "mistral-7b-v0.1",
    "mistral-nemo-2407": "mistral-nemo-12b",
    "mixtral-8x7b-v0.1": "mixtral-8x7b",
    "open-llama-13b": "llama-13b",
    "open-llama-7b": "llama-7b",
    "open-llama-7b-v2": "llama-7b",
    "openthinker-32b": "qwen2.5-32b",
    "openthinker-7b": "qwen2.5-7b",
    "phi-3-medium-128k": "phi3-medium-4k",
    "phi-3-mini-128k": "phi3-mini-4k",
    "phi-3.5-mini": "phi3-mini-4k",
    "pythia-1.4b-deduped": "pythia-1.4b",
    "pythia-12b-deduped": "pythia-12b",
    "pythia-160m-deduped": "pythia-160m",
    "pythia-1b-deduped": "pythia-1b",
    "pythia-2.8b-deduped": "pythia-2.8b",
    "pythia-410m-deduped": "pythia-410m",
    "pythia-6.9b-deduped": "pythia-6.9b",
    "qwen2-0.5b": "qwen2.5-0.5b",
    "qwen2-1.5b": "qwen2.5-1.5b",
    "qwen2-72b": "qwen2.5-72b",
    "qwen2-7b": "qwen2.5-7b",
    "qwen2.5-7b-rope-300k": "qwen2.5-7b",
    "qwq-32b": "qwen2.5-32b",
    "qwq-32b-preview": "qwen2.5-32b",
    "s1-32b": "qwen2.5-32b",
    "s1.1-32b": "qwen2.5-32b",
    "sky-t1-32b-preview": "qwen2.5-32b",
    "skywork-or1-32b": "qwen2.5-32b",
    "skywork-or1-7b": "qwen2.5-7b",
    "smollm3-3b-checkpoints": "smollm3-3b",
    "solar-10.7b-v1.0": "solar-10.7b",
    "starcoderbase": "starcoder-15b",
    "starcoderplus": "starcoder-15b",
    "tinyllama-1.1b-intermediate-step-1431k-3t": "tinyllama-1.1b",
    "tinyllama-1.1b-v1.0": "tinyllama-1.1b",
    "vicuna-13b-v1.1": "llama-13b",
    "vicuna-13b-v1.3": "llama-13b",
    "vicuna-13b-v1.5": "llama2-13b",
    "vicuna-7b-v1.1": "llama-7b",
    "vicuna-7b-v1.3": "llama-7b",
    "vicuna-7b-v1.5": "llama2-7b",
    "yi-1.5-34b": "yi-34b",
    "yi-1.5-6b": "yi-6b",
    "yi-1.5-9b": "yi-9b",
    "zephyr-7b-alpha": "mistral-7b-v0.1",
    "zephyr-7b-beta": "mistral-7b-v0.1",
    "zephyr-7b-sft-full": "mistral-7b-v0.1",
}
"""Models that have another's shape: their ``config.json`` on https://huggingface.co says the same sizes."""


def is_twin(text: str) -> bool:
    """Return whether a name is that of a model with another's shape, and not of a tuned one of that name."""
    name = text.strip().rstrip("/").rpartition("/")[2].lower().replace("___", ".")
    spellings = {spelt for word in (name, name.replace("_", "-")) for spelt in (word, TUNED.sub("", word))}
    return not spellings.isdisjoint(TWINS)
