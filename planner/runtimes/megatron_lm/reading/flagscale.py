"""A FlagScale YAML: Megatron's arguments under ``system``, ``model`` and ``data``, or what starts it.

References
----------
.. [1] FlagScale (https://github.com/FlagOpen/FlagScale), flagscale/runner: the leaves of the three sections
   become arguments; docs and examples/*/conf: ``defaults`` of an experiment names the training's file.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from planner.errors import InputError, Problem
from planner.inputs.bounded import is_file
from planner.inputs.yaml_file import parse_repeating, read_text
from planner.runtimes.imports.command_line import Training
from planner.runtimes.imports.interpolation import interpolated
from planner.runtimes.megatron_lm.reading.megatron_names import flags_of

SECTIONS: Final = ("system", "model", "data")
HETERO: Final = "enable_hetero"
FFN: Final = ("multiple_of", "hidden_dim_multiplier")


def is_one(tree: Mapping[str, Any]) -> bool:
    """Return whether a file is a training of FlagScale, or an experiment that names one."""
    sections = all(isinstance(tree.get(name), Mapping) for name in SECTIONS[:2])
    return (sections and "tensor_model_parallel_size" in _leaves(tree["system"])) or _named(tree) is not None


def training_from(tree: Mapping[str, Any], path: Path) -> Training:
    """Return the arguments of a training, with the accelerators of the experiment that starts it.

    Raises `InputError` if the file that an experiment names is not there, or clusters of unlike devices share
    the layers.
    """
    whole, name = dict(tree), _named(tree)
    if name is not None:
        file = path.parent / "train" / f"{name}.yaml"
        if "/" in name or not is_file(file):
            raise InputError(
                Problem(f"{path}: defaults.train", repr(name[:60]), f"a file {file.name} in train/")
            )
        whole |= parse_repeating(read_text(file), str(file))[0]
    whole = interpolated(whole)
    values: dict[str, Any] = {}
    for section in SECTIONS:
        values |= _leaves(whole.get(section))
    if values.get(HETERO) is True:
        expected = "one kind of device: layers over unlike ones are not priced"
        raise InputError(Problem(f"{path}: system.hetero", "enable_hetero", expected))
    values = {key: value for key, value in values.items() if not _of_the_run(key, value)}
    nodes, ranks = _started(whole)
    return Training("megatron-lm", _with_ffn(flags_of(values), values), nodes, ranks, None, ())


def _of_the_run(key: str, value: Any) -> bool:
    """Whether a key is of unlike devices, or what its experiment says of saving, seeds and logs."""
    left = isinstance(value, str) and "${experiment." in value and not key.endswith("_size")
    return left or key.startswith("hetero_")


def _named(tree: Mapping[str, Any]) -> str | None:
    """Return the training that an experiment names."""
    experiment = tree.get("experiment")
    task = _leaves(experiment.get("task") if isinstance(experiment, Mapping) else None)
    listed = tree.get("defaults") if task.get("backend") == "megatron" else None
    entries = [one.get("train") for one in listed or () if isinstance(one, Mapping)]
    return next((str(name) for name in entries if name is not None), None)


def _leaves(section: Any) -> dict[str, Any]:
    """Return the leaves of a section by their own names."""
    found: dict[str, Any] = {}
    for key, value in section.items() if isinstance(section, Mapping) else ():
        found |= _leaves(value) if isinstance(value, Mapping) else {str(key): value}
    return found


def _started(tree: Mapping[str, Any]) -> tuple[int | None, int | None]:
    said = _leaves(tree.get("experiment"))
    nodes, ranks = said.get("nnodes"), said.get("nproc_per_node")
    devices = str(said.get("CUDA_VISIBLE_DEVICES") or "").split(",")
    ranks = ranks if isinstance(ranks, int) else len(devices) if devices != [""] else None
    whole = nodes if isinstance(nodes, int) else None if said.get("hostfile") else 1
    return (whole, ranks) if ranks is not None and ranks > 0 else (None, None)


def _with_ffn(flags: dict[str, str], values: Mapping[str, Any]) -> dict[str, str]:
    """Return flags with the width that FlagScale makes of ``multiple_of`` where none is said.

    Two thirds of four times the width, times ``hidden_dim_multiplier``, up to the next multiple.
    Source: flagscale/runner/auto_tuner/utils.py, ``multiple_of``.
    """
    hidden, step = values.get("hidden_size"), values.get("multiple_of")
    kept = {key: value for key, value in flags.items() if key.lstrip("-").replace("-", "_") not in FFN}
    if (
        "ffn_hidden_size" in values
        or values.get("swiglu") is not True
        or not (isinstance(hidden, int) and isinstance(step, int) and step > 0)
    ):
        return kept
    times = values.get("hidden_dim_multiplier")
    width = int(int(4 * hidden * 2 / 3) * (times if isinstance(times, int | float) else 1))
    return kept | {"--ffn-hidden-size": str(-(-width // step) * step)}
