"""Read launch files with DeepSpeed's own config and engines; run by an interpreter that has deepspeed.

Takes lines of JSON on stdin, each with ``folder``, ``gpus``, ``tp``, ``pp``, ``cp`` and ``ep``, and answers
each with a line of JSON: what DeepSpeed refused, or what it derived. The engine is built around a model of
two layers on pretended ranks, for the combinations that do not need the model itself.
"""

import contextlib
import copy
import json
import logging
import os
import sys
import types
from pathlib import Path
from unittest import mock

os.environ.setdefault("DS_ACCELERATOR", "cpu")
os.environ.setdefault("DS_IGNORE_CUDA_DETECTION", "1")

import deepspeed
import torch
import torch.distributed as dist
from answering import answer_lines
from check_hub import numbers_of
from deepspeed.accelerator import get_accelerator
from deepspeed.module_inject import auto_ep_config, auto_ep_folding
from deepspeed.runtime import config as runtime_config
from deepspeed.runtime.pipe.topology import PipeModelDataParallelTopology
from torch.testing._internal.distributed.fake_pg import FakeStore

deepspeed.utils.logger.setLevel(logging.ERROR)


class Watched(dict):
    """A mapping that remembers which keys were asked for."""

    def __init__(self, *values):
        super().__init__(*values)
        self.seen = set()

    def __getitem__(self, key):
        self.seen.add(key)
        return super().__getitem__(key)

    def get(self, key, default=None):
        self.seen.add(key)
        return super().get(key, default)

    def __contains__(self, key):
        self.seen.add(key)
        return super().__contains__(key)

    def keys(self):
        return self

    def __copy__(self):
        return self


LATE = {"optimizer", "data_types", "expert_parallel", "sequence_parallel_size"}


def parsed(case, raw):
    """Return DeepSpeed's config for the world of the case, and the keys that it never read."""
    ranks = types.SimpleNamespace(get_rank=lambda *_, **__: 0, get_world_size=lambda *_, **__: case["gpus"])
    outer = case["pp"] * case["cp"]
    mpu = types.SimpleNamespace(get_data_parallel_world_size=lambda: case["gpus"] // outer)
    watched = Watched(copy.deepcopy(raw))
    with mock.patch.object(runtime_config, "dist", ranks):
        config = runtime_config.DeepSpeedConfig(watched, mpu=mpu if outer > 1 else None)
    return config, sorted(key for key in raw if key not in watched.seen and key not in LATE)


def experts(case, config):
    """Run AutoEP's own checks of degrees."""
    settings = config.expert_parallel_config
    sizes = (case["gpus"], case["pp"], case["tp"], case["cp"])
    auto_ep_config.validate_autoep_config(settings, *sizes)
    spec = auto_ep_folding.build_folding_spec(
        world_size=case["gpus"], pp_size=case["pp"], tp_size=case["tp"], ep_size=settings.autoep_size,
        etp_size=settings.expert_tensor_parallel_size, mp_mode="tp" if case["tp"] > 1 else "sp",
    )  # fmt: skip
    auto_ep_folding.validate_folding_global(
        spec, zero_stage=config.zero_optimization_stage, sp_size=case["cp"],
        zero_offload_optimizer=config.zero_config.offload_optimizer is not None,
    )  # fmt: skip
    return spec.edp_size if hasattr(spec, "edp_size") else None


def engine(case, raw):
    """Build the ZeRO engine of a toy model on pretended ranks, and return its sizes."""
    settings = copy.deepcopy(raw) | {
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
    }
    settings.pop("optimizer")
    settings.pop("expert_parallel", None)
    os.environ.update(RANK="0", WORLD_SIZE=str(case["gpus"]), LOCAL_RANK="0", MASTER_ADDR="127.0.0.1")
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=case["gpus"])
    try:
        deepspeed.comm.comm.cdb = None
        deepspeed.init_distributed(dist_init_required=False)
        get_accelerator().is_fp16_supported = lambda: True  # not every processor has it; a GPU does
        third = raw["zero_optimization"].get("stage", 0) == 3
        with deepspeed.zero.Init(config_dict_or_path=settings) if third else contextlib.nullcontext():
            model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 64))
        optimizer = torch.optim.AdamW(model.parameters())
        built, *_ = deepspeed.initialize(
            model=model, optimizer=optimizer, config=settings, dist_init_required=False
        )
        return {"dp": built.dp_world_size, "optimizer": type(built.optimizer).__name__}
    finally:
        dist.destroy_process_group()
        deepspeed.utils.groups._WORLD_GROUP = None


def stage_params(case):
    """Build the stages of the emitted script without storage, and return the parameters of each.

    Attention has none, and that of another package cannot be loaded here.
    """
    sys.modules.setdefault("datasets", types.SimpleNamespace(load_dataset=None))
    path = Path(case["folder"]) / "train.py"
    scope = {"__name__": "emitted", "__file__": str(path)}
    exec(compile(path.read_text().replace("flash_attention_3", "sdpa"), str(path), "exec"), scope)
    with mock.patch.object(torch.nn.Module, "to_empty", lambda module, **_: module):
        stages = [scope["Stage"](index) for index in range(len(scope["STAGE_LAYERS"]))]
    return [sum(weight.numel() for weight in stage.parameters()) for stage in stages]


def derive(case):
    """Return what DeepSpeed makes of one folder."""
    raw = json.loads((Path(case["folder"]) / "ds_config.json").read_text())
    config, ignored = parsed(case, raw)
    zero = config.zero_config
    answer = {
        "micro_batch": config.train_micro_batch_size_per_gpu,
        "accumulation": config.gradient_accumulation_steps,
        "zero": int(config.zero_optimization_stage),
        "ranks_of_batch": int(config.world_size),
        "offload": "cpu" if "cpu" in str(getattr(zero.offload_optimizer, "device", "")).lower() else "none",
        "tp": max(1, int(config.tensor_parallel_config.autotp_size)),
        "ignored": ignored,
        "numbers": numbers_of(case["folder"]),
    }
    if case["pp"] > 1:
        if answer["zero"] > 1:
            raise ValueError("the pipeline engine runs ZeRO 0 and 1")
        layout = {"num_pp": case["pp"], "num_mp": 1, "num_dp": case["gpus"] // case["pp"]}
        answer["pipe"] = PipeModelDataParallelTopology(**layout).get_dim("pipe")
        answer["stage_params"] = stage_params(case)
    if case["ep"] > 1:
        experts(case, config)
        answer["ep"] = config.expert_parallel_config.autoep_size
    if case["pp"] * case["cp"] * case["tp"] == 1 and case["gpus"] <= 1024:
        answer["engine"] = engine(case, raw)
    return answer


if __name__ == "__main__":
    answer_lines(derive)
