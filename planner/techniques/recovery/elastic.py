"""The other replicas go on at once with the lost one's work, cut anew over all, until the node is back."""

from planner.techniques.recovery.family import WATCHED, Recovery, needs_replicas

ENTRY = Recovery(
    name="elastic",
    cite="arXiv:2401.00134",
    level="peers",
    pause=2 * WATCHED,
    faults=needs_replicas,
    missing=lambda held: 1.0 / held.nodes,
    beside="a service beside the runtime, which goes on with fewer nodes",
    aliases=("unicron", "elaswave"),
)
