"""DiLoCo: each replica trains alone for some steps, then the mean of their changes is one outer step.

The outer optimizer is SGD with Nesterov momentum. torchft 73dafea (``local_sgd.py``) keeps the outer
parameters in host memory and the momentum on the device, and while it exchanges also the change and a clone.
"""

from planner.techniques.sync.family import LAW, Penalty, Sync, blocking

ENTRY = Sync(
    name="diloco",
    cite="arXiv:2311.08105",
    sends="the change of all parameters after the inner steps, in a ring all-reduce",
    hidden="nothing: all wait",
    timing=blocking,
    penalty=Penalty(
        "law", "loss +0.1%, +0.5%, +1.5% at 1B for 2, 4, 8 replicas; H = 1000 +2.9% perplexity over 50", LAW
    ),
    device_copies=1.0,
    host_copies=1.0,
    passing_copies=2.0,
    runners={"torchtitan": "diloco"},
)
