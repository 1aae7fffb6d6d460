"""Makes torchtitan take a processor for its device, with sums over gloo in place of scaled sums over NCCL."""

import sys
import types
from importlib.abc import MetaPathFinder
from importlib.util import find_spec
from unittest import mock


def device_of(torch):
    """Return a module that answers like that of one GPU while tensors are the processor's."""

    class Device(types.ModuleType):
        def __getattr__(self, name):
            if name.startswith("__"):
                raise AttributeError(name)
            return getattr(torch.cpu, name, None) or mock.MagicMock()

    device = Device("processor")
    kind = types.SimpleNamespace(total_memory=80 << 30, name="NVIDIA H100 80GB HBM3", major=9, minor=0)
    device.get_device_properties = lambda *_: kind
    device.get_device_name = lambda *_: kind.name
    device.memory_stats = lambda *_: {}
    device.current_device = lambda: 0
    device.set_device = lambda *_: None
    return device


def plain_scans(torch):
    """Let gated delta nets run flash-linear-attention's own reference, where the package is there."""
    if find_spec("fla") is None:
        return
    from fla.ops import gated_delta_rule
    from fla.ops.gated_delta_rule.naive import naive_chunk_gated_delta_rule

    def rule(queries, keys, values, gates, strengths, **_):
        queries, keys = (torch.nn.functional.normalize(one, dim=-1) for one in (queries, keys))
        made, state = naive_chunk_gated_delta_rule(queries, keys, values, gates, strengths)
        return made.to(values.dtype), state

    gated_delta_rule.chunk_gated_delta_rule = rule


class Finder(MetaPathFinder):
    """Loads ``torchtitan.tools.utils`` and changes what it says of the device."""

    def find_spec(self, name, path=None, target=None):
        """Return the module's spec with a changed loader."""
        if name != "torchtitan.tools.utils":
            return None
        sys.meta_path.remove(self)
        spec = find_spec(name)
        load = spec.loader.exec_module

        def changed(module):
            import torch
            from torch.distributed.fsdp._fully_shard import _fsdp_collectives as messages

            divided = messages._get_gradient_divide_factors
            messages._get_gradient_divide_factors = lambda *values: divided(*values[:5], True)
            torch.cuda.get_device_capability = lambda *_, **__: (9, 0)
            plain_scans(torch)
            load(module)
            module.device_type, module.device_module = "cpu", device_of(torch)
            if hasattr(module, "get_local_device"):
                module.get_local_device = lambda: torch.device("cpu")

        spec.loader.exec_module = changed
        return spec


sys.meta_path.insert(0, Finder())
