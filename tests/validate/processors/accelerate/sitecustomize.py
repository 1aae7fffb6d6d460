"""Makes Accelerate take a processor for a GPU: it shards over GPUs alone, though PyTorch needs none."""

import sys
from importlib.abc import MetaPathFinder
from importlib.util import find_spec


class Finder(MetaPathFinder):
    """Loads ``accelerate.state`` and changes what it says of the device."""

    def find_spec(self, name, path=None, target=None):
        """Return the module's spec with a changed loader."""
        if name != "accelerate.state":
            return None
        sys.meta_path.remove(self)
        spec = find_spec(name)
        load = spec.loader.exec_module

        def changed(module):
            load(module)
            import torch

            kinds, state = module.DistributedType, module.PartialState
            state.set_device = lambda self: setattr(self, "device", torch.device("cpu"))
            state._prepare_backend = lambda self, *_, **__: ("gloo", kinds.MULTI_GPU)

        spec.loader.exec_module = changed
        return spec


sys.meta_path.insert(0, Finder())
