"""Train real models for a few steps on one device, and compare time and memory with ``planner estimate``.

Run as ``python -m tests.gpu.train_step --device cuda --hardware dgx-h100 --out steps.jsonl``, with the
profile that ``planner profile`` has written for the device in place of ``dgx-h100`` where there is one.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    apply_activation_checkpointing,
    checkpoint_wrapper,
)

from planner.cost.estimate import Estimate, estimate
from planner.inputs.load_hardware import load_hardware
from planner.inputs.workload import Workload
from planner.plan import Plan
from planner.runtimes import runtimes
from planner.runtimes.family import Job, Runtime
from tests.gpu.models import SIZES, Block, Model

WARM_UP, STEPS = 3, 5


@dataclass(frozen=True)
class Case:
    """One training job: a model, its batch, and how it runs; ``wrapper`` is plain or fsdp."""

    model: str
    seq: int
    micro_batch: int
    accumulation: int = 1
    recompute: str = "none"
    compiled: bool = False
    wrapper: str = "fsdp"

    @property
    def name(self) -> str:
        flags = [self.recompute] * (self.recompute != "none") + ["compiled"] * self.compiled
        batch = f"mb{self.micro_batch}x{self.accumulation}"
        return "-".join([self.model, f"s{self.seq}", batch, *flags, self.wrapper])


def default_cases() -> list[Case]:
    """Return the cases of a GPU with 80 GB: three families, both wrappers, recompute and compiled or not.

    Those that are compiled come last: each takes the compiler longer than all of its steps, and where time
    runs out large models say more.
    """
    cases = [
        Case(model, seq, max(1, tokens // seq), recompute=recompute, compiled=compiled)
        for model, tokens in (
            ("gpt-125m", 32768),
            ("llama-350m", 16384),
            ("llama-1b", 8192),
            ("gpt-1.3b", 8192),
            ("mixtral-1b", 8192),
        )
        for seq in (1024, 4096)
        for recompute, compiled in (("none", False), ("full", False), ("none", True))
    ]
    cases += [
        Case("llama-3b", 4096, 1, recompute="full"),
        Case("llama-3b", 2048, 1, accumulation=4),
        Case("mixtral-4x1b", 4096, 1),
        Case("llama-8b-half", 4096, 1, recompute="full"),
        Case("llama-1b", 16384, 1, recompute="full"),
        Case("llama-8b", 2048, 1, recompute="full"),
    ]
    cases += [replace(case, wrapper="plain") for case in cases if not case.compiled][:8]
    return sorted(cases, key=lambda case: case.compiled)


def tiny_cases() -> list[Case]:
    """Return one small case of each family, so that all of this runs on a processor."""
    return [
        Case("llama-tiny", 64, 2),
        Case("llama-tiny", 64, 2, accumulation=2, recompute="full"),
        Case("gpt-tiny", 64, 2, wrapper="plain"),
        Case("llama-tiny", 64, 2, compiled=True),
        Case("mixtral-tiny", 64, 2),
    ]


def predicted(case: Case, hardware: str) -> Estimate:
    """Price a case as FSDP2 on one rank, with the kernels that this script really calls."""
    runtime: Runtime = runtimes()["fsdp"].with_traits(
        fused_norm=True,
        compiled=case.compiled,
        fused_activation=case.compiled,
        fused_rope=case.compiled,
    )
    workload = Workload(seq_len=case.seq, global_batch=case.micro_batch * case.accumulation)
    job = Job(SIZES[case.model].spec(case.seq), load_hardware(hardware), 1, workload)
    plan = Plan(
        micro_batch=float(case.micro_batch),
        num_microbatches=float(case.accumulation),
        zero=3,
        recompute=case.recompute,
        cp_method="all-gather",
    )
    return estimate(plan, job, runtime)


def prepared(case: Case, device: str) -> tuple[nn.Module, torch.optim.Optimizer]:
    """Return the model as the case runs it: fp32 weights, computed in bf16, fused Adam."""
    torch.manual_seed(0)
    with torch.device(device):
        model: nn.Module = Model(SIZES[case.model], case.seq)
    if case.recompute == "full":
        apply_activation_checkpointing(
            model, checkpoint_wrapper_fn=checkpoint_wrapper, check_fn=lambda part: isinstance(part, Block)
        )
    if case.compiled:
        for block in model.blocks:
            block.compile()
    if case.wrapper == "fsdp":
        shard(model, device)
    learned = [weight for weight in model.parameters() if weight.requires_grad]
    return model, torch.optim.AdamW(learned, lr=1e-4, fused=True)


def shard(model: nn.Module, device: str) -> None:
    """Wrap every block and the whole with FSDP2 over the one rank there is."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    mesh = init_device_mesh(device.partition(":")[0], (1,))
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for block in model.blocks:
        fully_shard(block, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)


def train_step(model: nn.Module, optimizer: torch.optim.Optimizer, case: Case, device: str) -> None:
    """Run one optimizer step on random tokens."""
    size = SIZES[case.model]
    for _ in range(case.accumulation):
        tokens = torch.randint(0, size.vocab, (case.micro_batch, case.seq + 1), device=device)
        with torch.autocast(device.partition(":")[0], torch.bfloat16, enabled=case.wrapper == "plain"):
            logits = model(tokens[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten())
        (loss / case.accumulation).backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def measured(case: Case, device: str) -> dict[str, Any]:
    """Train, and return the median time of a step and the peak of allocated memory; or that it ran out."""
    cuda = device.startswith("cuda")
    clear(cuda)
    before = torch.cuda.memory_allocated() if cuda else 0
    try:
        model, optimizer = prepared(case, device)
        seconds = []
        for step in range(WARM_UP + STEPS):
            if cuda and step == WARM_UP:
                torch.cuda.reset_peak_memory_stats()
            start = time.perf_counter()
            train_step(model, optimizer, case, device)
            if cuda:
                torch.cuda.synchronize()
            seconds.append(time.perf_counter() - start)
    except Exception as error:
        if ran_out(error):
            return {"oom": True}
        return {"oom": False, "failed": (str(error).splitlines() or [type(error).__name__])[0][:200]}
    peak = torch.cuda.max_memory_allocated() - before if cuda else None
    return {"oom": False, "seconds": statistics.median(seconds[WARM_UP:]), "peak_bytes": peak}


def ran_out(error: Exception) -> bool:
    """Whether memory ran out, in torch's allocator or in a library beside it."""
    return isinstance(error, torch.OutOfMemoryError) or any(
        word in str(error) for word in ("out of memory", "ALLOC_FAILED")
    )


def clear(cuda: bool) -> None:
    """Forget the case before: modules with hooks are cycles, and compiled code counts against a limit."""
    torch._dynamo.reset()
    gc.collect()
    if cuda:
        torch.cuda.empty_cache()


def compared(case: Case, device: str, hardware: str) -> dict[str, Any]:
    """Return one row: the case, what was predicted and what was measured."""
    price = predicted(case, hardware)
    row = {
        "case": case.name,
        **asdict(case),
        "predicted_s": price.step,
        "predicted_bytes": max(stage.allocated for stage in price.stages),
        "predicted_fits": price.feasible,
    }
    return row | measured(case, device)


def summary(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return mean and worst errors, and the cases that were predicted to fit and ran out."""
    ran = [row for row in rows if "seconds" in row]
    times = [abs(row["predicted_s"] / row["seconds"] - 1) for row in ran]
    peaks = [abs(row["predicted_bytes"] / row["peak_bytes"] - 1) for row in ran if row["peak_bytes"]]
    return {
        "cases": len(rows),
        "failed": [row["case"] for row in rows if "failed" in row],
        "time_mean": statistics.mean(times) if times else None,
        "time_worst": max(times, default=None),
        "memory_mean": statistics.mean(peaks) if peaks else None,
        "memory_worst": max(peaks, default=None),
        "ran_out_though_predicted_to_fit": [
            row["case"] for row in rows if row["oom"] and row["predicted_fits"]
        ],
    }


def told(row: dict[str, Any]) -> str:
    """Return one case in words."""
    if row["oom"]:
        return f"out of memory, predicted to {'fit' if row['predicted_fits'] else 'run out'}"
    if "failed" in row:
        return f"failed: {row['failed']}"
    memory = f", {row['peak_bytes'] / 2**30:.2f} GiB" if row["peak_bytes"] else ""
    wanted = f"{row['predicted_s']:.4f} s, {row['predicted_bytes'] / 2**30:.2f} GiB"
    return f"{row['seconds']:.4f} s{memory}; predicted {wanted}"


def one_rank(device: str) -> None:
    """Make the process group that FSDP2 asks for, of this process alone."""
    if device.startswith("cuda"):
        torch.cuda.set_device(device if ":" in device else "cuda:0")
    store = torch.distributed.HashStore()
    backend = "nccl" if device.startswith("cuda") else "gloo"
    torch.distributed.init_process_group(backend, store=store, rank=0, world_size=1)


def results(
    cases: Sequence[Case], device: str, hardware: str, out: Path, seconds: float = math.inf
) -> Iterator[dict[str, Any]]:
    """Yield a row for each case, kept in a file as soon as it is known; what is there is not run again.

    No case is begun once the seconds are over.
    """
    end = time.monotonic() + seconds
    kept = [json.loads(line) for line in out.read_text("utf-8").splitlines()] if out.exists() else []
    known = {row["case"]: row for row in kept}
    with out.open("a", encoding="utf-8") as stream:
        for case in cases:
            if case.name not in known:
                if time.monotonic() > end:
                    return
                known[case.name] = compared(case, device, hardware)
                stream.write(json.dumps(known[case.name]) + "\n")
                stream.flush()
            yield known[case.name]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the cases, and print a line for each and the errors."""
    parser = argparse.ArgumentParser(prog="python -m tests.gpu.train_step", description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--hardware", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--tiny", action="store_true", help="small cases, for a processor")
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no case after so long")
    options = parser.parse_args(arguments)
    one_rank(options.device)
    rows = []
    try:
        cases = tiny_cases() if options.tiny else default_cases()
        for row in results(cases, options.device, options.hardware, options.out, 60 * options.minutes):
            rows.append(row)
            sys.stdout.write(f"{row['case']}: {told(row)}\n")
            sys.stdout.flush()
    finally:
        torch.distributed.destroy_process_group()
    sys.stdout.write(json.dumps(summary(rows)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
