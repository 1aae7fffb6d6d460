"""On AMD the files have ROCm's variables, and nothing that only CUDA knows."""

from __future__ import annotations

from planner.launchers import launchers, target
from planner.launchers.emit import started
from planner.runtimes import runtimes
from planner.runtimes.rocm import ALWAYS, on_vendor
from tests.cases import every
from tests.validate.megatron import cases

WRITING = [entry for entry in runtimes().values() if entry.command is not None]


@every("runtime", WRITING, ids=lambda entry: entry.name)
@every("hardware", ["mi300x-8", "mi355x-8", "dgx-h100", "gb200-nvl72"])
def test_the_environment_is_the_vendors(runtime: object, hardware: str) -> None:
    gpus = 4 if hardware.startswith("gb200") else 8
    job = cases.job("llama3-8b", gpus, hardware=hardware, seq_len=4096, global_batch=64)
    wanted = target(runtime, launchers()["torchrun"])  # type: ignore[arg-type]
    plan = cases.plan(gpus, 64, zero=wanted.runtime.default_zero)
    variables = started(plan, job, wanted).environment
    amd = hardware.startswith("mi")
    assert amd == (ALWAYS.items() <= variables.items())
    assert amd == ("PYTORCH_HIP_ALLOC_CONF" in variables)
    assert amd == ("PYTORCH_CUDA_ALLOC_CONF" not in variables)
    assert not (amd and {"NCCL_NVLS_ENABLE", "NCCL_MNNVL_ENABLE"} & variables.keys())
    assert variables["PYTORCH_ALLOC_CONF"] == "expandable_segments:True"


def test_files_that_set_their_own_environment_say_the_same() -> None:
    job = cases.job("llama3-8b", 8, hardware="mi300x-8", seq_len=4096, global_batch=64)
    wanted = target(runtimes()["megatron-bridge"], launchers()["torchrun"])
    command = started(cases.plan(8, 64, tp=2.0), job, wanted)
    text = (command.files or {})["train.py"]
    for name, value in command.environment.items():
        assert f"{name}={value!r}" in text
    assert "CUDA_ALLOC_CONF" not in text
    assert command.environment["CUDA_DEVICE_MAX_CONNECTIONS"] == "1"


def test_what_is_given_twice_is_the_same() -> None:
    job = cases.job("llama3-8b", 8, hardware="mi300x-8")
    once = on_vendor({"PYTORCH_CUDA_ALLOC_CONF": "x", "A": "1"}, job.hardware.pool.accelerator)
    assert on_vendor(once, job.hardware.pool.accelerator) == once
