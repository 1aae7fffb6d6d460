"""Peak bytes of a rank: FSDP2 with weights on the host, by PyTorch's own tracker; FSDP1 by its storages.

Nothing is computed: tensors are fake, on a device and a process group that are not there. Run as a program
with rows of ``hosted.csv`` or ``flat.csv`` in ``tests/oracle/fsdp_memory`` as JSON lines on standard input;
prints what is counted.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import weakref
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.fsdp2_mem_tracker import FSDPMemTracker
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import CheckpointImpl, checkpoint_wrapper
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import (
    CPUOffloadPolicy,
    FullyShardedDataParallel,
    MixedPrecision,
    MixedPrecisionPolicy,
    _flat_param,
    _runtime_utils,
    fully_shard,
)
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.nn import functional
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter
from torch.utils.backend_registration import _DummyBackendModule, _setup_privateuseone_for_python_backend
from torch.utils.weak import WeakIdKeyDictionary

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

    def recompute(self) -> None:
        for place, layer in enumerate(self.layers):
            self.layers[place] = checkpoint_wrapper(
                layer, checkpoint_impl=CheckpointImpl.NO_REENTRANT, preserve_rng_state=False
            )

    def cut(self, recompute: bool, options: dict[str, Any]) -> None:
        if recompute:
            self.recompute()
        for part in (self.table, *self.layers):
            fully_shard(part, **options)
        fully_shard([self.norm, self.head], reshard_after_forward=False, **options)
        fully_shard(self, **options)


class Storages(TorchDispatchMode):
    """Counts what is alive on the device: PyTorch's tracker does not take views of flat parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.found: Any = WeakIdKeyDictionary(ref_type=weakref.ref)
        self.peak = 0

    def add(self, one: Tensor) -> None:
        if one.device.type == DEVICE:
            self.found[one.untyped_storage()] = True

    def __torch_dispatch__(self, call: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = call(*args, **(kwargs or {}))
        for one in tree_iter(result):
            if isinstance(one, Tensor):
                self.add(one)
        self.peak = max(self.peak, sum(one.nbytes() for one in list(self.found)))
        return result


def total(tracker: FSDPMemTracker, moment: str, device: str) -> int:
    found = tracker.get_tracker_snapshot(moment)
    return sum(int(one["Total"]) for where, one in found.items() if where.type == device)


def reduced(row: dict[str, Any]) -> torch.dtype:
    return torch.float32 if row["reduce_dtype"] == "fp32" else torch.bfloat16


def made(row: dict[str, Any]) -> tuple[Model, Tensor, Tensor]:
    """Return the model and its inputs, rotations last."""
    torch.set_default_dtype(torch.float32 if row["param_dtype"] == "fp32" else torch.bfloat16)
    with torch.device(DEVICE):
        model = Model(row)
    torch.set_default_dtype(torch.float32)
    with torch.device(DEVICE):
        turns = torch.empty(1, row["seq"], 1, row["head_dim"] // 2, dtype=torch.complex64)
        return model, torch.zeros(row["mbs"], row["seq"], dtype=torch.int64), turns


def step(model: Any, tokens: Tensor, turns: Tensor) -> None:
    functional.cross_entropy(model(tokens, turns).flatten(0, 1).float(), tokens.flatten()).backward()


def hosted(row: dict[str, Any]) -> dict[str, int]:
    """Return the most that a step has on the device, and what rests on the host after it."""
    mesh = init_device_mesh(DEVICE, (row["dp_shard"],))
    with FakeTensorMode(allow_non_fake_inputs=True):
        model, tokens, turns = made(row)
        computed = torch.bfloat16 if row["param_dtype"] == "fp32" else None
        options = {
            "mesh": mesh,
            "mp_policy": MixedPrecisionPolicy(computed, reduced(row)),
            "offload_policy": CPUOffloadPolicy(pin_memory=True),
        }
        model.cut(row["ac"] == "full", options)
        with FSDPMemTracker(model) as tracker:
            for _ in range(row["accum"]):
                tracker.reset_mod_stats()
                step(model, tokens, turns)
            peak, host = total(tracker, "peak", DEVICE), total(tracker, "current", "cpu")
    pinned = sum(pinned_bytes(one) for one in model.parameters())
    return {"peak_total": peak - given(tokens, turns), "host_total": host, "pinned_weights": pinned}


def flat(row: dict[str, Any]) -> dict[str, int]:
    """Return the most that FSDP1 has in a step, without optimizer states."""
    with FakeTensorMode(allow_non_fake_inputs=True):
        model, tokens, turns = made(row)
        if row["ac"] == "full":
            model.recompute()
        sharded = FullyShardedDataParallel(
            model,
            auto_wrap_policy=ModuleWrapPolicy({Layer}),
            mixed_precision=MixedPrecision(torch.bfloat16, reduced(row), torch.bfloat16),
            use_orig_params=True,
            device_id=torch.device(DEVICE, 0),
        )
        counted = Storages()
        for one in (*sharded.parameters(), tokens, turns):
            counted.add(one.data)
        with counted:
            step(sharded, tokens, turns)  # streams and flags are made
            sharded.zero_grad()
            counted.peak = 0
            step(sharded, tokens, turns)
    return {"peak_total": counted.peak - given(tokens, turns)}


def given(*inputs: Tensor) -> int:
    return sum(int(one.untyped_storage().nbytes()) for one in inputs)


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
    for module in (_flat_param, _runtime_utils):
        module._no_dispatch_record_stream = lambda *_: None
    torch.autograd.set_multithreading_enabled(False)
    for row in map(json.loads, rows.splitlines()):
        dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=row["dp_shard"])
        print(json.dumps((hosted if "pinned_weights" in row else flat)(row)), flush=True)  # noqa: T201
        dist.destroy_process_group()
    os._exit(0)  # threads of the device that is not there never end


if __name__ == "__main__":
    main(sys.stdin.read())
