"""Read launch files with Accelerate's own parsers; run by an interpreter that has accelerate and torch.

Takes lines of JSON on stdin, each with ``folder``, ``gpus``, ``arguments`` of the script and, if parameters
are wanted, ``count``, and answers each with a line of JSON: what Accelerate refused, or the degrees that it
derived, the environment that it exports, and the parameters of a rank once transformers has split the model
and Accelerate has sharded it.
"""

import functools
import os
import types
from pathlib import Path

import torch
import torch.distributed as dist
from accelerate.commands import launch
from accelerate.commands.config.config_args import load_config_from_file
from accelerate.parallelism_config import ParallelismConfig
from accelerate.utils import DistributedType, FullyShardedDataParallelPlugin
from accelerate.utils import launch as launches
from accelerate.utils.fsdp_utils import fsdp2_prepare_model
from accelerate.utils.launch import prepare_multi_gpu_env, prepare_simple_launcher_cmd_env
from answering import answer_lines
from check_hub import numbers_of
from torch.distributed.tensor import DTensor, Shard
from torch.testing._internal.distributed.fake_pg import FakeStore
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.distributed import DistributedConfig
from transformers.distributed.tensor_parallel import apply_tensor_parallelism
from transformers.initialization import no_tie_weights

OURS = ("FSDP_", "PARALLELISM_CONFIG_", "ACCELERATE_USE", "ACCELERATE_MIXED", "ACCELERATE_DYNAMO")
SHARDED = 128
"""Shards up to which Accelerate shards the model itself: thousands take a minute."""

launch.is_bf16_available = lambda *_: True
launches.is_port_in_use = lambda *_: False  # nothing is started, whatever runs beside


def launched(folder: Path, arguments: list[str]) -> tuple[types.SimpleNamespace, dict[str, str]]:
    """Return Accelerate's view of the arguments, and the environment that it would start the script with."""
    path = str(folder / "accelerate.yaml")
    parsed = launch.launch_command_parser().parse_args(["--config_file", path, "train.py", *arguments])
    load_config_from_file(path)
    parsed, _, _ = launch._validate_launch_command(parsed)
    several = parsed.multi_gpu or parsed.use_fsdp
    environment = prepare_multi_gpu_env(parsed) if several else prepare_simple_launcher_cmd_env(parsed)[1]
    return parsed, {name: value for name, value in environment.items() if name.startswith(OURS)}


def sizes_of(gpus: int, fsdp: bool) -> ParallelismConfig:
    """Return Accelerate's sizes, once it has found them to fit ``gpus``."""
    sizes = ParallelismConfig()
    kind = DistributedType.FSDP if fsdp else DistributedType.MULTI_GPU
    sizes._validate_accelerator(
        types.SimpleNamespace(
            multi_device=not fsdp,
            num_processes=gpus,
            is_fsdp2=fsdp,
            is_main_process=False,
            distributed_type=kind,
        )
    )
    return sizes


def local(weight: torch.Tensor) -> torch.Tensor:
    """Return what this rank holds of a weight."""
    return weight.to_local() if isinstance(weight, DTensor) else weight


def params_of(
    folder: Path, sizes: ParallelismConfig | None, plugin: FullyShardedDataParallelPlugin | None, mesh: object
) -> dict[str, int]:
    """Build the model without storage, split it by transformers' plan, and shard it as Accelerate does.

    Returns the parameters of a rank before it is sharded, those of the first rank, and those of all ranks
    that share the shards, as PyTorch chunks them; and whether all chunks are alike.
    """
    with torch.device("meta"), no_tie_weights():
        model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder), dtype=torch.float32)
    if sizes is not None and sizes.tp_size > 1:
        plan, _, _ = model._resolve_parallel_plans(DistributedConfig(tp_size=sizes.tp_size))
        apply_tensor_parallelism(model, mesh["tp"], plan)
    model.tie_weights()
    whole = {name: local(weight).shape for name, weight in model.named_parameters()}
    answer = {"split": sum(shape.numel() for shape in whole.values())}
    if plugin is None:
        return answer
    shards = mesh["dp_shard_cp"].size() if mesh is not None else dist.get_world_size()
    rows = {name: chunks(shape[0], shards) for name, shape in whole.items()}
    widths = {name: shape.numel() // max(1, shape[0]) for name, shape in whole.items()}
    held = {name: rows[name][0] * widths[name] for name in whole}
    if shards <= SHARDED:
        assert sharded(model, sizes, plugin, mesh) == held
    everyone = sum(sum(rows[name]) * widths[name] for name in whole)
    even = all(shape[0] % shards == 0 for shape in whole.values())
    return answer | {"first": sum(held.values()), "shards": shards, "all": everyone, "even": even}


def sharded(
    model: torch.nn.Module,
    sizes: ParallelismConfig | None,
    plugin: FullyShardedDataParallelPlugin,
    mesh: object,
) -> dict[str, int]:
    """Shard a model as Accelerate does, and return what the first rank holds of each weight."""
    plugin.cpu_ram_efficient_loading = False
    accelerator = types.SimpleNamespace(
        state=types.SimpleNamespace(fsdp_plugin=plugin),
        torch_device_mesh=mesh,
        parallelism_config=sizes,
        mixed_precision="bf16",
        is_main_process=False,
    )
    model = fsdp2_prepare_model(accelerator, model)
    return {name: local(weight).numel() for name, weight in model.named_parameters()}


@functools.cache
def chunks(rows: int, shards: int) -> list[int]:
    """Return the rows of each shard, as PyTorch cuts them."""
    return [Shard.local_shard_size_and_offset(rows, shards, rank)[0] for rank in range(shards)]


def built(case: dict[str, object], fsdp: bool, sized: bool) -> dict[str, object]:
    """Return the mesh and the parameters on ``gpus`` pretended ranks."""
    gpus = case["gpus"]
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=gpus)
    try:
        sizes = sizes_of(gpus, fsdp) if sized else None
        mesh = sizes.build_device_mesh("cpu") if sizes is not None else None
        plugin = FullyShardedDataParallelPlugin() if fsdp else None
        answer: dict[str, object] = {}
        if mesh is not None:
            answer["mesh"] = dict(zip(mesh.mesh_dim_names, mesh.mesh.shape, strict=True))
        if case.get("count"):
            answer["params"] = params_of(Path(case["folder"]), sizes, plugin, mesh)
        return answer
    finally:
        dist.destroy_process_group()


def derive(case: dict[str, object]) -> dict[str, object]:
    """Return what Accelerate makes of one folder."""
    parsed, environment = launched(Path(case["folder"]), case["arguments"])
    if int(parsed.num_processes) != case["gpus"]:
        raise ValueError(f"num_processes {parsed.num_processes} of {case['gpus']}")
    kept = dict(os.environ)
    os.environ.update(environment, RANK="0", WORLD_SIZE=str(case["gpus"]), LOCAL_RANK="0")
    try:
        answer: dict[str, object] = {"environment": environment, "numbers": numbers_of(case["folder"])}
        if parsed.use_fsdp:
            plugin = FullyShardedDataParallelPlugin()
            answer |= {"version": plugin.fsdp_version, "reshard": plugin.reshard_after_forward}
            answer |= {"recompute": plugin.activation_checkpointing}
        sized = environment.get("ACCELERATE_USE_PARALLELISM_CONFIG") == "true"
        return answer | built(case, parsed.use_fsdp, sized)
    finally:
        os.environ.clear()
        os.environ.update(kept)


if __name__ == "__main__":
    answer_lines(derive)
