"""SGD with momentum: one moment and a master weight."""

from planner.techniques.optimizers.family import Optimizer

ENTRY = Optimizer(name="sgd", cite="doi:10.1016/0041-5553(64)90137-5", states=1, state_bytes=4.0)
