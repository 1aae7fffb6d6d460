"""Context parallelism of Megatron-core: its methods by name, the sizes of a mesh, and what each needs."""

from __future__ import annotations

from typing import Final

import numpy as np

from planner.formulas.mesh import mesh_head_ranks
from planner.inputs.model import LatentAttention
from planner.plan import Plan
from planner.rules import Rule, divides
from planner.runtimes.family import Job
from planner.runtimes.megatron_lm.architecture import Architecture, architecture
from planner.runtimes.offered import offered
from planner.techniques.context.family import offered_name

CP_COMM: Final = {"ring": "p2p", "all-gather": "allgather", "all-to-all": "a2a", "usp": "a2a+p2p"}
"""Values of ``--cp-comm-type``."""

SIZES_FLAG: Final = "--hierarchical-context-parallel-sizes"


def context_method(plan: Plan, job: Job) -> tuple[str, tuple[int, ...]]:
    """Return the ``cp_comm_type`` of a legal scalar plan, and the sizes of its mesh, the inner one first.

    References
    ----------
    .. [1] NVIDIA, Megatron-LM, ``megatron/core/parallel_state.py``, ``create_hierarchical_groups``; its
       inner groups exchange heads (Transformer Engine, ``AttnFuncWithCPAndKVP2P``).
    """
    name, _, said = plan.cp_method.partition(":")
    if name != "usp":
        return CP_COMM[name], ()
    mixer = architecture(job.model).mixer
    near = job.hardware.pool.fast_ranks(job.gpus) / plan.tp
    heads, groups = mixer.heads / plan.tp, max(mixer.kv_heads / plan.tp, 1.0)
    inner = int(said or mesh_head_ranks(plan.cp, heads, groups, near))
    return CP_COMM[name], (inner, int(plan.cp) // inner)


def context_flags(plan: Plan, job: Job) -> list[str]:
    """Return the flags of the method of context parallelism."""
    if plan.cp <= 1:
        return []
    kind, sizes = context_method(plan, job)
    return ["--cp-comm-type", kind, *([SIZES_FLAG, *map(str, sizes)] if sizes else [])]


def context_rules(plan: Plan, arch: Architecture) -> list[Rule]:
    """Return the rules on context parallelism, those of Transformer Engine's attention included."""
    single = np.less_equal(plan.cp, 1)
    method, methods = offered_name(plan.cp_method), set(CP_COMM)
    if isinstance(arch.mixer, LatentAttention):
        methods = {"all-gather"} if arch.mixer.indexer else {"ring"}
    if arch.window is not None:
        methods &= {"all-gather", "all-to-all"}
    if arch.sinks:
        methods &= {"all-to-all"}
    rules = [offered("cp-method-offered", "cp method", method, sorted(methods), np.logical_not(single))]
    if method == "all-to-all":
        heads = arch.mixer.heads / plan.tp
        groups = np.maximum(1.0, arch.mixer.kv_heads / plan.tp)
        rules.append(
            Rule(
                "cp-divides-heads",
                single | (divides(plan.cp, heads) & divides(plan.cp, groups)),
                lambda: (
                    f"cp {plan.cp:g} by all-to-all",
                    f"a divisor of the {heads:g} heads and {float(groups):g} query groups of a rank",
                    f"cp {np.gcd(int(plan.cp), np.gcd(int(heads), int(groups)))}, or cp method ring",
                ),
            )
        )
    return rules
