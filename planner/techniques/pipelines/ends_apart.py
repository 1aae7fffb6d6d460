"""Zero bubble's: an optimizer that validates later lets each stage begin its next step."""

from planner.techniques.pipelines.family import PipelineCode

ENTRY = PipelineCode(
    name="ends-apart",
    cite="arXiv:2401.10241, sec. 4",
    ends_apart=True,
)
