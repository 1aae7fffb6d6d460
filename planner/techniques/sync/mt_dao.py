"""MT-DAO: DES-LOC with one slow momentum for the first moment, all states averaged equally rarely."""

from planner.techniques.sync.family import Penalty, Send, Sync, SyncTiming


def together(steps: int, layers: int, delay: int) -> SyncTiming:
    """Return the timing of parameters, the slow momentum and second moments, each after the inner steps."""
    return SyncTiming(float(steps), (Send(1.0, 0.0),) * 3)


ENTRY = Sync(
    name="mt-dao",
    cite="arXiv:2510.05361",
    sends="all parameters, a slow momentum and second moments after the inner steps, in ring all-reduces",
    hidden="nothing: all wait",
    timing=together,
    penalty=Penalty("range", "at 16M 1.0% worse with 32 inner steps, 3.2% with 128, 3.7% with 1,024; at "
                    "720M 5% fewer tokens than data parallelism with the same optimizer",
                    "arXiv:2510.05361"),
)  # fmt: skip
