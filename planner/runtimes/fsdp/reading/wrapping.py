"""How FSDP cuts a model into units, and what it fetches ahead: what differs from what is priced is told.

References
----------
.. [1] PyTorch, torch/distributed/fsdp/fully_sharded_data_parallel.py: ``auto_wrap_policy``,
   ``backward_prefetch``, ``limit_all_gathers``.
.. [2] Accelerate, accelerate/utils/dataclasses.py, ``FullyShardedDataParallelPlugin``: without a policy
   nothing below the whole model is a unit.
"""

from __future__ import annotations

from typing import Final

from planner.runtimes.imports.passed_over import among, off, passed_over

WHOLE: Final = "the weights of the whole model are gathered at once; priced layer by layer, which keeps less"
PLACE: Final = r"(?:fsdp_config\.)?(?:fsdp_)?"
WRAPPED: Final = (
    passed_over(f"{PLACE}auto_wrap_policy", among("no_wrap"), WHOLE),
    passed_over(f"{PLACE}auto_wrap_policy", among("size_based_wrap"), "priced with each layer as a unit"),
    passed_over(
        f"{PLACE}backward_prefetch(?:_policy)?",
        among("no_prefetch", "backward_post", "none"),
        "priced with the next layer fetched before each backward pass",
    ),
    passed_over(f"{PLACE}limit_all_gathers", off, "priced with two layers gathered at most"),
)
"""Keys of FSDP's section, with or without its prefixes."""
