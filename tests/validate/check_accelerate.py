"""Read launch files with Accelerate's own parsers; run by an interpreter that has accelerate and torch.

Takes lines of JSON on stdin, each with ``folder``, ``gpus`` and ``arguments`` of the script, and answers each
with a line of JSON: what Accelerate refused, or the degrees that it derived and the environment it exports.
"""

import json
import os
import sys
import types
from pathlib import Path

import torch.distributed as dist
from accelerate.commands import launch
from accelerate.commands.config.config_args import load_config_from_file
from accelerate.parallelism_config import ParallelismConfig
from accelerate.utils import DistributedType, FullyShardedDataParallelPlugin
from accelerate.utils.launch import prepare_multi_gpu_env, prepare_simple_launcher_cmd_env
from torch.testing._internal.distributed.fake_pg import FakeStore

OURS = ("FSDP_", "PARALLELISM_CONFIG_", "ACCELERATE_USE", "ACCELERATE_MIXED", "ACCELERATE_DYNAMO")
launch.is_bf16_available = lambda *_: True


def launched(folder: Path, arguments: list[str]) -> tuple[types.SimpleNamespace, dict[str, str]]:
    """Return Accelerate's view of the arguments, and the environment that it would start the script with."""
    path = str(folder / "accelerate.yaml")
    parsed = launch.launch_command_parser().parse_args(["--config_file", path, "train.py", *arguments])
    load_config_from_file(path)
    parsed, _, _ = launch._validate_launch_command(parsed)
    several = parsed.multi_gpu or parsed.use_fsdp
    environment = prepare_multi_gpu_env(parsed) if several else prepare_simple_launcher_cmd_env(parsed)[1]
    return parsed, {name: value for name, value in environment.items() if name.startswith(OURS)}


def mesh_of(gpus: int, fsdp: bool) -> dict[str, int]:
    """Return the sizes of Accelerate's device mesh on ``gpus`` pretended ranks."""
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
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=gpus)
    try:
        mesh = sizes.build_device_mesh("cpu")
    finally:
        dist.destroy_process_group()
    return dict(zip(mesh.mesh_dim_names, mesh.mesh.shape, strict=True)) if mesh is not None else {}


def derive(case: dict[str, object]) -> dict[str, object]:
    """Return what Accelerate makes of one folder."""
    parsed, environment = launched(Path(case["folder"]), case["arguments"])
    if int(parsed.num_processes) != case["gpus"]:
        raise ValueError(f"num_processes {parsed.num_processes} of {case['gpus']}")
    kept = dict(os.environ)
    os.environ.update(environment, RANK="0", WORLD_SIZE=str(case["gpus"]), LOCAL_RANK="0")
    try:
        answer: dict[str, object] = {"environment": environment}
        if parsed.use_fsdp:
            plugin = FullyShardedDataParallelPlugin()
            answer |= {"version": plugin.fsdp_version, "reshard": plugin.reshard_after_forward}
            answer |= {"recompute": plugin.activation_checkpointing}
        if environment.get("ACCELERATE_USE_PARALLELISM_CONFIG") == "true":
            answer["mesh"] = mesh_of(case["gpus"], parsed.use_fsdp)
        return answer
    finally:
        os.environ.clear()
        os.environ.update(kept)


def main() -> None:
    """Answer line by line; standard output is kept for the answers."""
    answers, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        try:
            answer = {"derived": derive(json.loads(line))}
        except (Exception, SystemExit) as error:
            answer = {"refused": f"{type(error).__name__}: {error}"[:300]}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
