"""Run a Python file, build its model without memory, and export the graph of its forward pass."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from math import prod
from pathlib import Path
from typing import Any, Final

from planner.dataclasses import replace
from planner.errors import InputError, Problem
from planner.inputs.bounded import is_file
from planner.inputs.own_model.graph import Graph, Op

TOKENS: Final = 61
"""Tokens of the sequence that a model is exported with; a prime, so that no width is the same. [-]"""

CASTS: Final = frozenset({"to", "_to_copy", "float", "type_as", "detach", "alias", "clone", "squeeze"})
"""Operators after which a parameter is itself."""

NEEDS: Final = "PyTorch 2.6 or later in this environment: pip install 'parallelism-planner[import]'"


def traced(file: Path, name: str) -> Graph:
    """Return the graph of the model ``name`` of a Python file: a class, a function that makes it, or itself.

    Raises `InputError` if the file does not run, has no such model, or PyTorch cannot export it.
    """
    if not is_file(file):
        raise InputError(Problem(str(file), "no such file", "a Python file"))
    if importlib.util.find_spec("torch") is None:
        raise InputError(Problem(str(file), "no PyTorch to export a model with", NEEDS))
    torch = importlib.import_module("torch")
    model = _built(torch, file, name)
    ids = torch.zeros(1, TOKENS, dtype=torch.long, device="meta")
    try:
        exported = torch.export.export(model, (ids,), strict=False)
    except Exception as error:
        why = (
            f"{type(error).__name__}: {str(error).strip().splitlines()[0][:160]}"
            if str(error)
            else repr(error)
        )
        expected = f"a forward pass of token ids of shape (1, {TOKENS}) that torch.export takes"
        raise InputError(Problem(f"{file}:{name}", why, expected)) from error
    return _graph(model, exported)


def _built(torch: Any, file: Path, name: str) -> Any:
    where = f"{file}:{name}"
    spec = importlib.util.spec_from_file_location(f"own_model_{file.stem}", file)
    if spec is None or spec.loader is None:
        raise InputError(Problem(str(file), "no file that Python reads", "a Python file"))
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(file.parent))
    try:
        spec.loader.exec_module(module)
        made = getattr(module, name, None)
        if made is None:
            models = [key for key in vars(module) if key[0] != "_" and callable(getattr(module, key))]
            raise InputError(Problem(where, "no such name in the file", f"one of {', '.join(models)[:160]}"))
        with torch.device("meta"):
            model = made if isinstance(made, torch.nn.Module) else made()
    except InputError:
        raise
    except Exception as error:
        found = f"{type(error).__name__}: {str(error).strip()[:160]}"
        raise InputError(
            Problem(where, found, "a file that runs, and a model that needs no arguments")
        ) from error
    finally:
        sys.path.remove(str(file.parent))
    if not isinstance(model, torch.nn.Module):
        raise InputError(
            Problem(where, type(model).__name__, "a torch.nn.Module, its class, or what returns one")
        )
    return model.to("meta").train()


def _graph(model: Any, exported: Any) -> Graph:
    """Return the graph: shared parameters under one name, each operator with the module that runs it."""
    first: dict[int, str] = {}
    named = list(model.named_parameters(remove_duplicate=False))
    names = {key: first.setdefault(id(one), key) for key, one in named}
    signature = exported.graph_signature
    held = {node: names[target] for node, target in signature.inputs_to_parameters.items()}
    buffers = set(signature.inputs_to_buffers)
    params = {names[key]: tuple(one.shape) for key, one in named}
    ops = []
    for node in exported.graph.nodes:
        if node.op != "call_function":
            continue
        reads = [one.name for one in node.all_input_nodes]
        value = node.meta.get("val")
        stack = list((node.meta.get("nn_module_stack") or {}).values())
        kind = _kind(node)
        if kind in CASTS and len(reads) == 1 and reads[0] in held:
            held[node.name] = held[reads[0]]
            continue
        shape = tuple(int(size) for size in getattr(value, "shape", ()))
        ops.append(
            Op(
                node.name,
                kind,
                tuple(name for name in reads if name not in held and name not in buffers),
                tuple(held[name] for name in reads if name in held),
                shape,
                stack[-1][0] if stack else "",
                _flops(node, shape),
                _causal(node) if kind == "scaled_dot_product_attention" else False,
            )
        )
    return Graph(*_linears(ops, params), TOKENS, frozenset(signature.user_inputs))


def _linears(ops: list[Op], params: dict[str, tuple[int, ...]]) -> tuple[tuple[Op, ...], dict[str, Any]]:
    """Return products with a matrix of weights as linear layers, whose matrix is said outputs first."""
    turned = dict(params)
    made = []
    for op in ops:
        matrices = [name for name in op.weights if len(params[name]) == 2]
        others = [name for name in op.weights if name not in matrices]
        if op.kind in ("addmm", "mm", "matmul") and len(matrices) == len(op.reads) == 1:
            inputs, outputs = params[matrices[0]]
            turned[matrices[0]] = (outputs, inputs)
            op = replace(op, kind="linear", weights=(*matrices, *others), flops=0)
        made.append(op)
    return tuple(made), turned


def _kind(node: Any) -> str:
    """Return what PyTorch calls an operator; GELU in two ways of computing it are two."""
    kind = str(getattr(node.target, "_opname", getattr(node.target, "__name__", node.target)))
    return "gelu_tanh" if kind == "gelu" and node.kwargs.get("approximate") == "tanh" else kind


def _flops(node: Any, shape: tuple[int, ...]) -> int:
    """FLOPs of products that are no linear layers: matrices of activations, and convolutions. [FLOP]"""
    shapes = [
        tuple(one.meta["val"].shape) for one in node.all_input_nodes if hasattr(one.meta.get("val"), "shape")
    ]
    kind = str(node.target)
    product = any(word in kind for word in ("aten.matmul", "aten.bmm", "aten.mm"))
    if product and shapes and shapes[0]:
        return 2 * prod(shape) * int(shapes[0][-1])
    if "aten.conv" in kind and len(shapes) > 1:
        return 2 * prod(shape) * prod(int(size) for size in shapes[1][1:])
    return 0


def _causal(node: Any) -> bool:
    names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
    said = dict(zip(names, node.args, strict=False)) | dict(node.kwargs)
    return bool(said.get("is_causal")) or said.get("attn_mask") is not None
