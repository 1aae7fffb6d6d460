"""Peak bytes of a rank of FSDP2 whose weights rest on the host, by PyTorch's own tracker.

Nothing is computed: tensors are fake, on a device and a process group that are not there. Run as a program
with rows of ``tests/oracle/fsdp_memory/hosted.csv`` as JSON lines on standard input; prints what is counted.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.fsdp2_mem_tracker import FSDPMemTracker
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import CheckpointImpl, checkpoint_wrapper
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard
from torch.nn import functional
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils.backend_registration import _DummyBackendModule, _setup_privateuseone_for_python_backend

DEVICE = "gpu"


class Mark:
    """An event that has always happened."""

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def record(self, *_: Any) -> Mark:
        return self

    def wait(self, *_: Any) -> None: ...

    synchronize = wait


class Queue:
    """A stream on which everything has run."""

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def wait_stream(self, _: Any) -> None: ...

    wait_event = wait_stream

    def record_event(self, *_: Any) -> Mark:
        return Mark()


class DeviceModule(_DummyBackendModule):
    """What FSDP2 and checkpointing ask of a device's module."""

    Stream, Event, only = Queue, Mark, Queue()

    def current_stream(self, *_: Any) -> Queue:
        return self.only

    def stream(self, _: Any) -> Any:
        return contextlib.nullcontext()

    def set_device(self, *_: Any) -> None: ...

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16]


class Attention(torch.autograd.Function):
    """Keeps what a fused kernel keeps."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        result, sums = torch.empty_like(q), torch.empty(q.shape[:3], device=q.device)
        ctx.save_for_backward(q, k, v, result, sums)
        return result

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        return tuple(torch.empty_like(one) for one in ctx.saved_tensors[:3])


class NormKernel(torch.autograd.Function):
    """Keeps its input and a number for each token."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight, torch.empty(x.shape[:-1], device=x.device))
        return torch.empty_like(x)

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        return tuple(torch.empty_like(one) for one in ctx.saved_tensors[:2])


class Norm(nn.Module):
    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(hidden))

    def forward(self, x: Tensor) -> Any:
        return NormKernel.apply(x, self.weight)


def rotated(x: Tensor, turns: Tensor) -> Tensor:
    """Return torchtitan's rotation, in fp32 as complex numbers."""
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * turns).flatten(3).type_as(x)


class Layer(nn.Module):
    """A layer of Llama."""

    def __init__(self, row: dict[str, Any]) -> None:
        super().__init__()
        hidden, inner, self.width = row["hidden"], row["inner"], row["head_dim"]
        sizes = {"q": row["heads"] * self.width, "k": row["kv_heads"] * self.width}
        shapes = {"q": sizes["q"], "k": sizes["k"], "v": sizes["k"], "gate": inner, "up": inner}
        self.first, self.second = Norm(hidden), Norm(hidden)
        self.into = nn.ModuleDict(
            {name: nn.Linear(hidden, size, bias=False) for name, size in shapes.items()}
        )
        self.out, self.down = nn.Linear(sizes["q"], hidden, bias=False), nn.Linear(inner, hidden, bias=False)

    def forward(self, x: Tensor, turns: Tensor) -> Any:
        normed = self.first(x)
        q, k, v = (self.into[name](normed).unflatten(-1, (-1, self.width)) for name in "qkv")
        heads = (one.transpose(1, 2) for one in (rotated(q, turns), rotated(k, turns), v))
        x = x + self.out(Attention.apply(*heads).transpose(1, 2).flatten(2))
        normed = self.second(x)
        return x + self.down(functional.silu(self.into["gate"](normed)) * self.into["up"](normed))


class Model(nn.Module):
    """Llama, cut as Accelerate 1.15 does: table, layers, and last norm and head together."""

    def __init__(self, row: dict[str, Any]) -> None:
        super().__init__()
        self.table = nn.Embedding(row["vocab"], row["hidden"])
        self.layers = nn.ModuleList(Layer(row) for _ in range(row["layers"]))
        self.norm, self.head = Norm(row["hidden"]), nn.Linear(row["hidden"], row["vocab"], bias=False)

    def forward(self, tokens: Tensor, turns: Tensor) -> Any:
        x = self.table(tokens)
        for layer in self.layers:
            x = layer(x, turns)
        return self.head(self.norm(x))

    def cut(self, recompute: bool, options: dict[str, Any]) -> None:
        for place, layer in enumerate(self.layers if recompute else ()):
            self.layers[place] = checkpoint_wrapper(
                layer, checkpoint_impl=CheckpointImpl.NO_REENTRANT, preserve_rng_state=False
            )
        for part in (self.table, *self.layers):
            fully_shard(part, **options)
        fully_shard([self.norm, self.head], reshard_after_forward=False, **options)
        fully_shard(self, **options)


def total(tracker: FSDPMemTracker, moment: str, device: str) -> int:
    found = tracker.get_tracker_snapshot(moment)
    return sum(int(one["Total"]) for where, one in found.items() if where.type == device)


def train(row: dict[str, Any]) -> dict[str, int]:
    """Return the most that a step has on the device, and what rests on the host after it."""
    whole = row["param_dtype"] == "fp32"
    reduced = torch.float32 if row["reduce_dtype"] == "fp32" else torch.bfloat16
    mesh = init_device_mesh(DEVICE, (row["dp_shard"],))
    with FakeTensorMode(allow_non_fake_inputs=True):
        torch.set_default_dtype(torch.float32 if whole else torch.bfloat16)
        with torch.device(DEVICE):
            model = Model(row)
        torch.set_default_dtype(torch.float32)
        with torch.device(DEVICE):
            turns = torch.empty(1, row["seq"], 1, row["head_dim"] // 2, dtype=torch.complex64)
            tokens = torch.zeros(row["mbs"], row["seq"], dtype=torch.int64)
        options = {
            "mesh": mesh,
            "mp_policy": MixedPrecisionPolicy(torch.bfloat16 if whole else None, reduced),
            "offload_policy": CPUOffloadPolicy(pin_memory=True),
        }
        model.cut(row["ac"] == "full", options)
        with FSDPMemTracker(model) as tracker:
            for _ in range(row["accum"]):
                tracker.reset_mod_stats()
                functional.cross_entropy(
                    model(tokens, turns).flatten(0, 1).float(), tokens.flatten()
                ).backward()
            peak, host = total(tracker, "peak", DEVICE), total(tracker, "current", "cpu")
    given = turns.untyped_storage().nbytes() + tokens.untyped_storage().nbytes()
    pinned = sum(pinned_bytes(one) for one in model.parameters())
    return {"peak_total": peak - given, "host_total": host, "pinned_weights": pinned}


def pinned_bytes(parameter: Any) -> int:
    """Bytes of a rank's part in the host's pinned memory, whose blocks are powers of two.

    PyTorch 2.13, ``ATen/core/CachingHostAllocator.h``, ``allocate``.
    """
    return 1 << (int(parameter.to_local().untyped_storage().nbytes()) - 1).bit_length()


def main(rows: str) -> None:
    _setup_privateuseone_for_python_backend(DEVICE, backend_module=DeviceModule())
    torch.Event, torch.Stream, torch.Tensor.pin_memory = Mark, Queue, lambda one, *_: one
    for kind in (nn.Linear, nn.Embedding):
        kind.reset_parameters = lambda _: None
    torch.autograd.set_multithreading_enabled(False)
    for row in map(json.loads, rows.splitlines()):
        dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=row["dp_shard"])
        print(json.dumps(train(row)), flush=True)  # noqa: T201
        dist.destroy_process_group()
    os._exit(0)  # threads of the device that is not there never end


if __name__ == "__main__":
    main(sys.stdin.read())
