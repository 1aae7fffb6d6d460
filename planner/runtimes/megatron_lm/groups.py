"""Process groups of Megatron Core.

All that its ``initialize_model_parallel`` makes for NCCL with one instance of the distributed optimizer, read
in https://github.com/NVIDIA/Megatron-LM/blob/d98e8a64dd/megatron/core/parallel_state.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from planner.inputs.model import ModelSpec
from planner.plan import Plan
from planner.runtimes.groups import Grouping, ProcessGroup


def core_groups(plan: Plan, model: ModelSpec, gpus: int) -> Iterator[ProcessGroup]:
    """Yield Megatron Core's groups, and pairs of ranks that overlapped pipeline messages make beside them."""
    tp, cp, pp, dp, ep = (int(degree) for degree in (plan.tp, plan.cp, plan.pp, plan.dp, plan.ep))
    experts, sharded = bool(model.expert_kinds), bool(plan.zero > 0)
    etp = int(plan.etp) if experts else tp
    yield ProcessGroup("world", gpus, True)
    yield ProcessGroup("dp-cp", dp * cp, True)
    yield ProcessGroup("dp", dp, False)
    yield ProcessGroup("cp", cp, True)
    yield ProcessGroup("tp-pp", tp * pp, not sharded)
    yield ProcessGroup("tp", tp, True)
    yield ProcessGroup("pp", pp, bool(plan.vpp <= 1))
    yield ProcessGroup("embedding", min(pp, 2), model.tied_embeddings)
    yield ProcessGroup("tp-dp-cp", tp * dp * cp, False)
    yield ProcessGroup("tp-dp", tp * dp, False)
    yield ProcessGroup("tp-cp", tp * cp, experts)
    yield ProcessGroup("ep", ep, experts)
    yield ProcessGroup("etp", etp, experts)
    yield ProcessGroup("etp-ep", etp * ep, experts)
    yield ProcessGroup("etp-ep-pp", etp * ep * pp, experts and not sharded)
    yield ProcessGroup("expert dp", gpus // (etp * ep * pp), experts)
    yield ProcessGroup("optimizer instance", gpus, sharded)
    if pp > 1 and plan.vpp > 1:
        yield from (ProcessGroup(f"pair with the {side} stage", 2, True) for side in ("next", "previous"))


CORE: Final = Grouping("Megatron Core's list", core_groups)
