"""Generation of answers by a model on some accelerators: what an engine holds, and how long it takes."""

from __future__ import annotations

from functools import cached_property
from typing import Final

from planner.cost.job_tiers import job_tiers
from planner.dataclasses import dataclass
from planner.formulas.collectives import Tier
from planner.formulas.post_training import decode_seconds, expected_touched, generation_seconds
from planner.formulas.ring_start import all_reduce_seconds
from planner.inputs.blocks import Attention, Experts, LatentAttention
from planner.inputs.hardware import Pool
from planner.inputs.model import ModelSpec
from planner.inputs.recurrent import RecurrentMixer

BYTES: Final = 2.0
"""Bytes of a weight and of an element of the cache: 16 bit. [byte]"""

STATE_BYTES: Final = 4.0
"""Bytes of an element of a recurrent state, which engines keep in fp32. [byte]"""

HELD: Final = 0.9
"""Share of device memory that an engine takes: vLLM's default ``gpu_memory_utilization``. [-]"""

KERNELS: Final = 8.0
"""Kernels of a layer for one token: two norms, four products, attention with its cache, activation. [-]"""


@dataclass(frozen=True)
class Answers:
    """What one step of training generates."""

    prompts: int
    samples: int
    """Prompts of a step, and answers to each. [-]"""
    prompt_tokens: float
    mean: float
    longest: float
    """Tokens of a prompt, and of answers in the mean and at most. [-]"""

    @property
    def count(self) -> int:
        """Answers of a step. [-]"""
        return self.prompts * self.samples

    @property
    def tokens(self) -> float:
        """Tokens of an answer with its prompt, in the mean. [-]"""
        return self.prompt_tokens + self.mean


def cache_bytes(model: ModelSpec, tokens: float) -> float:
    """Return what an engine keeps of one sequence: keys and values, latent ones, or states. [byte]

    Examples
    --------
    >>> from planner.inputs.load import load_model
    >>> cache_bytes(load_model("llama3-8b"), 1.0)
    131072.0
    """
    total = 0.0
    for name, layers in model.layer_counts.items():
        for mixer in model.blocks[name].mixers:
            total += layers * _mixer_bytes(mixer, tokens)
    return total


def _mixer_bytes(mixer: Attention | LatentAttention | RecurrentMixer, tokens: float) -> float:
    if isinstance(mixer, RecurrentMixer):
        state = float(mixer.state_heads * mixer.qk_head_dim * mixer.value_head_dim)
        return STATE_BYTES * state + BYTES * mixer.conv_kernel * mixer.conv_width
    if isinstance(mixer, LatentAttention):
        return BYTES * tokens * (mixer.kv_lora_rank + mixer.qk_rope_head_dim)
    kept = min(tokens, float(mixer.window)) if mixer.window else tokens
    return BYTES * kept * mixer.kv_heads * (mixer.qk_head_dim + mixer.value_head_dim)


@dataclass(frozen=True)
class Generator:
    """Replicas of a model that generate answers, each over ``ranks`` accelerators by tensor parallelism."""

    model: ModelSpec
    """The policy."""
    pool: Pool
    """Where it runs."""
    gpus: int
    ranks: int
    """Accelerators in all and of one replica. [-]"""
    answers: Answers
    """What all replicas generate together."""

    @property
    def replicas(self) -> int:
        """Copies of the model. [-]"""
        return self.gpus // self.ranks

    @property
    def weight_bytes(self) -> float:
        """Weights on a rank. [byte]"""
        return BYTES * self.model.params / self.ranks

    @property
    def free_bytes(self) -> float:
        """What a rank has for its cache. [byte]"""
        return HELD * self.pool.accelerator.memory_usable - self.weight_bytes

    @cached_property
    def at_once(self) -> float:
        """Sequences of a replica that fit into its cache, and that there are. [-]"""
        room = self.free_bytes * self.ranks / cache_bytes(self.model, self.answers.tokens)
        return min(float(int(room)), self.share)

    @property
    def share(self) -> float:
        """Answers of one replica. [-]"""
        return self.answers.count / self.replicas

    @property
    def fits(self) -> bool:
        """Whether a rank holds its weights and one sequence's cache."""
        return self.free_bytes > 0 and self.at_once >= min(1.0, self.share)

    @cached_property
    def tiers(self) -> tuple[Tier, ...]:
        """The links between the ranks of a replica."""
        return job_tiers(self.pool, self.gpus)

    def token_seconds(self, sequences: float, generated: float) -> float:
        """Return the seconds of one token of so many sequences that have generated so many each. [s]"""
        model, kernels = self.model, self.pool.accelerator.kernels
        curve = kernels.gemm["bf16"]
        read = BYTES * self._touched(sequences)
        read += sequences * cache_bytes(model, self.answers.prompt_tokens + generated)
        messages = 0.0
        if self.ranks > 1:
            one = all_reduce_seconds(BYTES * sequences * model.hidden, self.ranks, 1, self.tiers)
            messages = 2.0 * model.num_layers * float(one)
        seconds = decode_seconds(
            read / self.ranks,
            2.0 * model.active_params * sequences / self.ranks,
            curve.bandwidth,
            curve.rate,
            messages,
            KERNELS * model.num_layers * kernels.launch,
        )
        return float(seconds)

    def _touched(self, sequences: float) -> float:
        """Weights that a token of each of so many sequences reads together. [-]"""
        unread = 0.0
        for name, layers in self.model.layer_counts.items():
            ffn = self.model.blocks[name].ffn
            if isinstance(ffn, Experts):
                left = ffn.experts - float(expected_touched(ffn.experts, ffn.topk, sequences))
                unread += layers * left * ffn.expert_params(self.model.hidden)
        return self.model.params - unread

    @cached_property
    def seconds(self) -> float:
        """Until the last answer of a step is there, the prompts read aside. [s]"""
        answers = self.answers
        return generation_seconds(
            self.share, max(self.at_once, 1.0), answers.mean, answers.longest, self.token_seconds
        )


def best_engine(model: ModelSpec, pool: Pool, gpus: int, answers: Answers) -> Generator | None:
    """Return the fastest engine whose replicas stay within fast links, else the smallest; None if none is."""
    sizes = [2**power for power in range(8) if gpus % 2**power == 0]
    fitting = [one for size in sizes if (one := Generator(model, pool, gpus, size, answers)).fits]
    fast = [one for one in fitting if one.ranks <= pool.fast_ranks(gpus)] or fitting[:1]
    return min(fast, key=lambda one: one.seconds, default=None)
