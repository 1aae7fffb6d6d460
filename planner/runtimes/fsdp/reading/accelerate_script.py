"""A script that exports what ``accelerate launch`` would: the YAML's keys as variables of the environment.

References
----------
.. [1] Accelerate 1.15, utils/launch.py, ``prepare_multi_gpu_env``: the variable of each key.
"""

from __future__ import annotations

from typing import Any, Final

from planner.runtimes.fsdp.reading import accelerate
from planner.runtimes.fsdp.table import VARIABLES
from planner.runtimes.imports.command_line import Training
from planner.runtimes.imports.file_format import FileFormat, Source
from planner.runtimes.imports.literals import literals
from planner.runtimes.imports.model import with_config
from planner.runtimes.imports.sheet import Imported

RENAMED: Final = {variable.upper(): key for key, variable in VARIABLES.items()}
"""The key of each variable that is not named for it."""


def fits(source: Source) -> bool:
    """Return whether a Python file is started with Accelerate's variables."""
    return source.starter is not None and "ACCELERATE_MIXED_PRECISION" in source.starter.environment


def read(source: Source) -> Imported:
    """Return what the variables, the arguments and the constants of the training script say."""
    assert source.starter is not None
    tree = _tree(source.starter)
    found = accelerate.from_yaml(tree, source.starter.flags, literals(source.text), source.where)
    return with_config(found, source.path)


def _tree(starter: Training) -> dict[str, Any]:
    """Return the YAML that the variables stand for."""
    said = starter.environment
    sharded = said.get("ACCELERATE_USE_FSDP", "false").lower() in ("true", "1")
    tree: dict[str, Any] = {
        "distributed_type": "FSDP" if sharded else "MULTI_GPU" if (starter.gpus or 1) > 1 else "NO",
        "mixed_precision": said["ACCELERATE_MIXED_PRECISION"],
        "num_processes": starter.gpus,
    }
    if sharded:
        tree["fsdp_config"] = _section(starter, "FSDP_")
    if said.get("ACCELERATE_USE_PARALLELISM_CONFIG", "false").lower() in ("true", "1"):
        tree["parallelism_config"] = _section(starter, "PARALLELISM_CONFIG_")
    backend = said.get("ACCELERATE_DYNAMO_BACKEND")
    tree["dynamo_config"] = None if backend is None else {"dynamo_backend": backend}
    return {key: value for key, value in tree.items() if value is not None}


def _section(starter: Training, prefix: str) -> dict[str, Any]:
    """Return the keys of one section, words for true and false as such."""
    words: dict[str, Any] = {"true": True, "false": False}
    return {
        RENAMED.get(name, name.lower()): words.get(value.lower(), value)
        for name, value in starter.environment.items()
        if name.startswith(prefix)
    }


ENTRY: Final = FileFormat("a script with Accelerate's variables", (".py",), fits, read)
