"""Build each asked model by the file written for torchtitan 0.2 with that release's own code.

Lines in: ``{"file": ...}``; lines out: the model's arguments and parameters, or ``refused``.
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import json
import os
import sys
from typing import Any


def main() -> None:
    """Answer line by line."""
    sys.path.insert(0, os.environ["TORCHTITAN_02"])
    for line in sys.stdin:
        try:
            answer = built(json.loads(line)["file"])
        except Exception as error:  # whatever the release refuses is the answer
            answer = {"refused": f"{type(error).__name__}: {error}"}
        sys.stdout.write(json.dumps(answer, default=str) + "\n")
        sys.stdout.flush()


def built(file: str) -> dict[str, Any]:
    """Return the arguments of the model that a file registers, and the parameters of the model itself."""
    known = importlib.import_module("torchtitan.protocols.train_spec")
    torch = importlib.import_module("torch")
    known._extra_train_specs.clear()
    found = importlib.util.spec_from_file_location("titan_plan", file)
    assert found is not None
    assert found.loader is not None
    found.loader.exec_module(importlib.util.module_from_spec(found))
    spec = known.get_train_spec("titan_plan")
    arguments = spec.model_args["plan"]
    arguments.moe_impl = "standard"  # the job sets it
    with torch.device("meta"):
        model = spec.model_cls(arguments)
    params = sum(weight.numel() for weight in model.parameters())
    return {**dataclasses.asdict(arguments), "params": params}


if __name__ == "__main__":
    main()
