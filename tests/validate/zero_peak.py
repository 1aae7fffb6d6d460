"""Bytes of a rank under DeepSpeed's engine, moment by moment: its own code runs, and storages are counted.

Nothing is computed: tensors are fake, on a device and a process group that are not there. Run by an
interpreter that has deepspeed, with rows of ``tests/oracle/zero_memory`` as JSON lines on standard input;
prints for each the bytes on a rank in its second step: what rests, the most in forward, backward and the
optimizer's step of the last micro-batch, and what rests in the host's memory.
"""

from __future__ import annotations

import contextlib
import gc
import json
import logging
import os
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

os.environ["DS_ACCELERATOR"] = "cpu"
os.environ.update(LOCAL_RANK="0", MASTER_ADDR="127.0.0.1", MASTER_PORT="29511")
sys.path.insert(0, str(Path(__file__).parents[2]))

import deepspeed
import torch
import torch.distributed as dist
from deepspeed.accelerator import set_accelerator
from deepspeed.accelerator.cpu_accelerator import CPU_Accelerator
from deepspeed.ops.adam import cpu_adam
from deepspeed.ops.adam.multi_tensor_apply import MultiTensorApply
from deepspeed.runtime.utils import CheckOverflow
from deepspeed.runtime.zero import partition_parameters, partitioned_param_coordinator, stage3, stage_1_and_2
from deepspeed.runtime.zero import utils as zero_utils
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

from tests.torch.fsdp_peak import DEVICE, DeviceModule, Mark, Model, Queue, given

COUNTED = ("rest", "forward_peak", "backward_peak", "step_peak", "host_rest")


class Accelerator(CPU_Accelerator):
    """A device beside the host, with streams, as DeepSpeed asks for one."""

    Stream, Event = Queue, Mark

    def __init__(self) -> None:
        super().__init__()
        self._name, self._communication_backend_name = DEVICE, "fake"

    def is_synchronized_device(self) -> bool:
        return False

    def device_name(self, index: int | None = None) -> str:
        return DEVICE if index is None else f"{DEVICE}:{index}"

    def current_device_name(self) -> str:
        return f"{DEVICE}:0"

    def current_device(self) -> int:
        return 0

    def device_count(self) -> int:
        return 1

    def available_memory(self, _: Any = None) -> int:
        return 1 << 40

    total_memory = available_memory

    def current_stream(self, *_: Any) -> Queue:
        return Queue()

    def stream(self, _: Any) -> Any:
        return contextlib.nullcontext()

    def on_accelerator(self, tensor: Tensor) -> bool:
        return tensor.device.type == DEVICE

    def pin_memory(self, tensor: Tensor, *_: Any, **__: Any) -> Tensor:
        return tensor


class Module(DeviceModule):
    """What torch asks of the device."""

    def current_device(self) -> int:
        return 0

    def device_count(self) -> int:
        return 1


class Swish(torch.autograd.Function):
    """Keeps its input, and has one kernel in backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return torch.empty_like(x)

    @staticmethod
    def backward(ctx: Any, _: Any) -> Tensor:
        return torch.empty_like(ctx.saved_tensors[0])


class Known(TorchDispatchMode):
    """Gives fake tensors numbers: norms of 1, and no overflow."""

    def __torch_dispatch__(self, call: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
        if call is torch.ops.aten._local_scalar_dense.default:
            return 1.0 if args[0].dtype.is_floating_point else 0
        if call is torch.ops.aten.equal.default:
            return True
        return call(*args, **(kwargs or {}))


class Alive(TorchDispatchMode):
    """Counts the bytes of storages that are alive on device and host, and the most on the device."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[int, Any] = {}
        self.now, self.peak = {DEVICE: 0, "cpu": 0}, 0

    def add(self, one: Tensor) -> None:
        where, storage = one.device.type, one.untyped_storage()
        if where not in self.now or storage._cdata in self.found:
            return
        key, size = storage._cdata, storage.nbytes()

        def gone(_: Any) -> None:
            if self.found.pop(key, None) is not None:
                self.now[where] -= size

        self.found[key] = weakref.ref(storage, gone)
        self.now[where] += size

    def __torch_dispatch__(self, call: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = call(*args, **(kwargs or {}))
        for one in tree_iter(result):
            if isinstance(one, Tensor):
                self.add(one)
        self.peak = max(self.peak, self.now[DEVICE])
        return result

    def most(self) -> int:
        """Return the most since it was last asked."""
        found, self.peak = self.peak, self.now[DEVICE]
        return found


def config_of(row: dict[str, Any]) -> dict[str, Any]:
    """Return DeepSpeed's JSON of a row."""
    zero = {
        "stage": row["zero"],
        "overlap_comm": bool(row["overlap"]),
        "contiguous_gradients": True,
        "reduce_bucket_size": row["bucket"],
    }
    if row["zero"] == 3:
        zero |= {
            "stage3_prefetch_bucket_size": row["prefetch"],
            "stage3_max_live_parameters": row["live"],
            "stage3_max_reuse_distance": row["reuse"],
            "sub_group_size": row["sub_group"],
        }
    if row["offload"] != "none":
        zero["offload_optimizer"] = {"device": "cpu", "pin_memory": True}
    if row["offload"] == "weights":
        zero["offload_param"] = {"device": "cpu", "pin_memory": True}
    return {
        "train_micro_batch_size_per_gpu": row["mbs"],
        "gradient_accumulation_steps": row["accum"],
        "bf16": {"enabled": True},
        "data_types": {"grad_accum_dtype": row["gradients"]},
        "gradient_clipping": 1.0,
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}},
        "zero_optimization": zero,
        "zero_force_ds_cpu_optimizer": True,
    }


def made(row: dict[str, Any]) -> tuple[Model, Tensor, Tensor]:
    """Return the model in bf16 and its inputs, rotations last."""
    with torch.device(DEVICE):
        torch.set_default_dtype(torch.bfloat16)
        model = Model(row)
        torch.set_default_dtype(torch.float32)
        turns = torch.empty(1, row["seq"], 1, row["head_dim"] // 2, dtype=torch.complex64)
        tokens = torch.zeros(row["mbs"], row["seq"], dtype=torch.int64)
    if row["ac"] == "full":
        model.recompute()
    return model, tokens, turns


def counted(row: dict[str, Any]) -> dict[str, int]:
    """Return the bytes at each moment of the second step."""
    with FakeTensorMode(allow_non_fake_inputs=True), Known():
        model, tokens, turns = made(row)
        options = {"model": model, "model_parameters": list(model.parameters()), "config": config_of(row)}
        engine, *_ = deepspeed.initialize(**options, dist_init_required=False)
        alive, found = Alive(), dict[str, int]()
        gc.collect()
        for one in gc.get_objects():
            if issubclass(type(one), Tensor):
                alive.add(one.data if issubclass(type(one), nn.Parameter) else one)
        with alive:
            for _ in range(2 * row["accum"]):
                found["rest"] = alive.now[DEVICE]
                logits = engine(tokens, turns)
                loss = functional.cross_entropy(logits.flatten(0, 1).float(), tokens.flatten())
                del logits
                found["forward_peak"] = alive.most()
                engine.backward(loss)
                del loss
                found["backward_peak"] = alive.most()
                engine.step()
                found["step_peak"] = alive.most()
        inputs = given(tokens, turns)
        return {name: size - inputs for name, size in found.items()} | {"host_rest": alive.now["cpu"]}


def never(checked: Callable[..., Any]) -> Callable[..., bool]:
    """Run a check for overflow, and find none."""

    def asked(*args: Any, **options: Any) -> bool:
        checked(*args, **options)
        return False

    return asked


def pretend() -> None:
    """Put the device that is not there, and numbers that are not known, under torch and DeepSpeed."""
    _setup_privateuseone_for_python_backend(DEVICE, backend_module=Module())
    set_accelerator(Accelerator())
    Queue.synchronize = lambda *_: None
    Mark.query = lambda *_: True
    torch.Event, torch.Stream = Mark, Queue
    torch.Tensor.pin_memory = lambda one, *_: one
    torch.Tensor.record_stream = lambda *_: None
    functional.silu = Swish.apply
    for kind in (nn.Linear, nn.Embedding):
        kind.reset_parameters = lambda _: None
    for name in ("to", "bfloat16"):
        setattr(nn.Module, name, lambda self, *_, **__: self)  # the model is where and what it shall be
    torch.autograd.set_multithreading_enabled(False)
    plain = torch.tensor

    def tensor(data: Any, *args: Any, device: Any = None, **options: Any) -> Tensor:
        result = plain(data, *args, **options)
        return result if device is None else torch.empty(result.shape, dtype=result.dtype, device=device)

    torch.tensor = tensor
    MultiTensorApply.__call__ = lambda *_: None  # the kernels of Adam, which make no tensor
    cpu_adam.CPUAdamBuilder = mock.MagicMock()
    for module in (partitioned_param_coordinator, partition_parameters, zero_utils):
        for name in ("assert_ints_same_as_other_ranks", "assert_lst_len_same_as_other_ranks"):
            if hasattr(module, name):
                setattr(module, name, lambda *_: None)
    checkers = stage_1_and_2.DeepSpeedZeroOptimizer, stage3.DeepSpeedZeroOptimizer_Stage3, CheckOverflow
    for checker in checkers:
        checker.has_overflow = never(checker.has_overflow)


def main(rows: str) -> None:
    deepspeed.utils.logger.setLevel(logging.ERROR)
    pretend()
    for row in map(json.loads, rows.splitlines()):
        child = os.fork()  # groups and accelerators are made once in a process
        if child:
            if os.waitpid(child, 0)[1]:
                sys.exit(f"row {row}")
            continue
        os.environ.update(RANK=str(row["rank"]), WORLD_SIZE=str(row["dp"]))
        dist.init_process_group("fake", store=FakeStore(), rank=row["rank"], world_size=row["dp"])
        print(json.dumps(counted(row)), flush=True)  # noqa: T201
        os._exit(0)
    os._exit(0)


if __name__ == "__main__":
    main(sys.stdin.read())
