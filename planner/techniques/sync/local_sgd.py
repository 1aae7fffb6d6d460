"""Local SGD: each replica trains alone for some steps, then parameters are averaged."""

from planner.techniques.sync.family import Penalty, Sync, blocking

ENTRY = Sync(
    name="local-sgd",
    cite="arXiv:1805.09767",
    sends="all parameters after the inner steps, in a ring all-reduce",
    hidden="nothing: all wait",
    timing=blocking,
    penalty=Penalty(
        "unknown", "scales like data parallelism with 8 replicas, without figures", "arXiv:2409.13198"
    ),
    host_copies=1.0,
    runners={"torchtitan": "local_sgd"},
)
