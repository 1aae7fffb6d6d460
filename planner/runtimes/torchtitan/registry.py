"""What torchtitan's own registry starts by name: model and values where the command line says nothing.

References
----------
.. [1] torchtitan b5bcd76c (2026-08-21), torchtitan/models/*/config_registry.py of llama3, deepseek_v3, qwen3
   and gpt_oss and qwen3_5, of which no model has tied embeddings.
.. [2] The same, torchtitan/config/configs.py: defaults of ``TrainingConfig``, ``ParallelismConfig`` and
   ``CompileConfig``, which compiles nothing unless told.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from planner.dataclasses import dataclass
from planner.runtimes.torchtitan.table import DEGREES


@dataclass(frozen=True)
class RegistryEntry:
    """One configuration of the registry."""

    model: str
    """The model of the zoo with the same parts."""
    length: int
    """Longest context. [token]"""
    sequences: int
    """Sequences of that length in a micro-batch of a data-parallel rank."""
    recompute: str = "selective"
    """``none``, ``selective`` or ``full``."""
    tp: int = 1
    ep: int = 1
    """Degrees; all others are 1, and every rank left shards."""
    float8: str | None = None
    """Recipe of float8, for the linear layers."""
    precision: str = "bf16"
    """Of the products of linear layers."""
    compiled: bool = False
    async_tp: bool = False
    """Whether the model is compiled, and tensor-parallel messages go in pieces beside their products."""
    schedule: str = "1F1B"
    """Of a pipeline, where the command line asks for one."""
    images: bool = False
    """Whether its model sees images: as many as there are samples of CC12M, one for each micro-batch."""
    graphs: bool = True
    """Whether CUDA graphs are left on, which neither pipelines nor most dispatchers of experts can have."""

    def flags(self) -> dict[str, str]:
        """Return the command line that says the same."""
        said = {
            "training.max_context_length": str(self.length),
            "training.num_tokens_per_microbatch_per_dp_rank": str(self.length * self.sequences),
            f"parallelism.{DEGREES['tp']}": str(self.tp),
            f"parallelism.{DEGREES['ep']}": str(self.ep),
            "parallelism.pipeline_parallel_schedule": self.schedule,
            "compile.enable": str(self.compiled),
            "training.disable_cuda_graphs": str(not self.graphs),
        }
        return said | ({"compile.enable_async_tensor_parallel": "True"} if self.async_tp else {})


def _qwen35(model: str, recompute: str = "full", tp: int = 1, ep: int = 1) -> RegistryEntry:
    return RegistryEntry(model, 4096, 4, recompute, tp=tp, ep=ep, images=True, graphs=ep == 1)


def _deepseek(model: str, ep: int, float8: str | None = None) -> RegistryEntry:
    return RegistryEntry(model, 4096, 4, ep=ep, float8=float8, schedule="Interleaved1F1B", graphs=False)


REGISTRY: Final[Mapping[str, Mapping[str, RegistryEntry]]] = {
    "llama3": {
        "llama3_8b": RegistryEntry("llama3-8b", 8192, 1),
        "llama3_8b_mxfp8": RegistryEntry("llama3-8b", 8192, 1, precision="mxfp8", compiled=True),
        "llama3_70b": RegistryEntry("llama3-70b", 8192, 8, "full", tp=8),
        "llama3_405b": RegistryEntry(
            "llama3.1-405b", 8192, 2, "full", tp=8, float8="rowwise", compiled=True, async_tp=True
        ),
    },
    "deepseek_v3": {
        "deepseek_v3_16b": _deepseek("deepseek-v2-lite", 8),
        "deepseek_v3_671b": _deepseek("deepseek-v3", 2),
        "deepseek_v3_671b_float8": _deepseek("deepseek-v3", 2, "rowwise"),
    },
    "qwen3": {
        "qwen3_0_6b": RegistryEntry("qwen3-0.6b", 4096, 4),
        "qwen3_1_7b": RegistryEntry("qwen3-1.7b", 4096, 4),
        "qwen3_14b": RegistryEntry("qwen3-14b", 4096, 4, "full"),
        "qwen3_30b_a3b": RegistryEntry("qwen3-30b-a3b", 4096, 2, "full"),
        "qwen3_32b": RegistryEntry("qwen3-32b", 4096, 2, "full"),
        "sft_qwen3_8b_math": RegistryEntry("qwen3-8b", 2048, 1),
    },
    "qwen3_5": {
        "qwen35_0_8b": _qwen35("qwen3.5-0.8b", "selective"),
        "qwen35_2b": _qwen35("qwen3.5-2b", "selective"),
        "qwen35_4b": _qwen35("qwen3.5-4b"),
        "qwen35_9b": _qwen35("qwen3.5-9b", tp=2),
        "qwen35_27b": _qwen35("qwen3.5-27b", tp=4),
        "qwen35_35b_a3b": _qwen35("qwen3.5-35b-a3b", tp=2, ep=8),
        "qwen35_122b_a10b": _qwen35("qwen3.5-122b-a10b", tp=4, ep=8),
        "qwen35_397b_a17b": _qwen35("qwen3.5-397b-a17b", tp=8, ep=16),
    },
    "gpt_oss": {
        "gpt_oss_20b": RegistryEntry("gpt-oss-20b", 8192, 1, "full"),
        "gpt_oss_120b": RegistryEntry("gpt-oss-120b", 8192, 1, "full"),
    },
}
"""Modules, and the functions of each that describe a model of the zoo; others are not known here."""
