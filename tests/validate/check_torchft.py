"""Read the module of a replica with torchtitan's own config and fragment code.

Takes lines of JSON on stdin, each with ``folder`` and ``arguments``, and answers each with what torchtitan
made of it. TORCHTITAN is the checkout's folder.
"""

import importlib
import os
import sys
from dataclasses import asdict

import torch

sys.path.insert(0, os.environ["TORCHTITAN"])
os.environ.setdefault("DATA_PATH", "data")

from answering import answer_lines
from torchtitan.config import ConfigManager

torch.cuda.get_device_capability = lambda *_, **__: (9, 0)


def derive(case):
    """Return the settings of torchft, the classes that take part, and the parameters of each fragment."""
    sys.modules.pop("titan_plan", None)
    importlib.invalidate_caches()
    sys.path.insert(0, case["folder"])
    sys.dont_write_bytecode = True
    try:
        config = ConfigManager().parse_args(case["arguments"])
    finally:
        sys.path.remove(case["folder"])
    with torch.device("meta"):
        model = config.model_spec.model.build()
    settings = config.fault_tolerance
    fragments = config.model_spec.fragment_fn(model, settings, len(config.model_spec.model.layers))
    parts = (config, config.optimizer, config.checkpoint, config.model_spec)
    return {
        "settings": asdict(settings),
        "classes": [type(part).__qualname__ for part in parts],
        "fragments": [sum(p.numel() for p in part.parameters()) for part in fragments],
        "step_tokens": config.training.num_tokens_per_train_step,
    }


if __name__ == "__main__":
    answer_lines(derive)
