"""Messages that run beside the passes: a delay, for which neither side waits otherwise."""

from planner.techniques.pipelines.family import PipelineCode

ENTRY = PipelineCode(
    name="beside-passes",
    cite="arXiv:2401.10241: T_comm of its integer program",
    occupies=False,
)
