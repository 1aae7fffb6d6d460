"""Settings of Megatron-core that flags or fields switch on, as ``NAME=VALUE``."""

from __future__ import annotations

from collections.abc import Iterable


def graph_setting(implementation: str, modules: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return what runs as CUDA graphs, and a note where it is read otherwise than written.

    ``implementation``: ``cuda_graph_impl``; older releases name the whole iteration as a module; ``modules``:
    ``cuda_graph_modules``, or ``cuda_graph_scope`` of releases before; none of them is the whole layer.

    Examples
    --------
    >>> graph_setting("transformer_engine", ["attn", "moe_router"])
    (['cuda_graphs=attention'], [])
    >>> graph_setting("local", ["full_iteration"])
    (['cuda_graphs=passes'], [])
    """
    names = {name for name in modules if name != "full"}
    if "full_iteration" in (implementation, *names):
        return ["cuda_graphs=passes"], []
    if implementation in ("", "none", "None"):
        return [], []
    if names & {"attn", "mamba"} or not names:
        told = [] if names else ["graphs of whole layers: priced as graphs of attention and router"]
        told += ["graphs of Mamba layers: priced as graphs of attention too"] * (names == {"mamba"})
        return ["cuda_graphs=attention"], told
    if "moe_router" in names:
        return ["cuda_graphs=router"], []
    return (["graphed=mlp"], []) if "mlp" in names else ([], [f"graphs of {', '.join(names)} have no price"])
