"""Parts of a layer that Megatron-core's graphs hold, by model and recompute."""

from __future__ import annotations

from planner.inputs.load import load_model
from planner.plan import Plan
from planner.runtimes.megatron_lm.choices import graph_modules
from tests.cases import every

ROUTER = ["moe_router", "moe_preprocess"]


@every(
    ("name", "recompute", "graphed", "modules"),
    [
        ("llama3-8b", "none", "attention", ["attn"]),
        ("mixtral-8x7b", "selective", "attention", ["attn", *ROUTER]),
        ("mixtral-8x7b", "none", "router", ROUTER),
        ("nemotron-3-nano-30b-a3b", "none", "attention", ["attn", "mamba", *ROUTER]),
        ("nemotron-3-nano-30b-a3b", "selective:moe+norm", "attention", ["attn", "mamba"]),
        ("qwen3-next-80b-a3b", "none", "attention", ["attn", *ROUTER]),
    ],
)
def test_a_router_that_runs_again_is_outside(
    name: str, recompute: str, graphed: str, modules: list[str]
) -> None:
    """Megatron-LM d98e8a64, core/transformer/transformer_config.py: no moe_router beside recompute of moe."""
    assert graph_modules(Plan(recompute=recompute), load_model(name), graphed) == modules
