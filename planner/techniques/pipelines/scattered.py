"""Megatron-LM's of 2021 and DeepSpeed's: a whole message goes in parts, which are gathered on arrival."""

from planner.techniques.pipelines.family import PipelineCode

ENTRY = PipelineCode(
    name="scattered",
    cite="arXiv:2104.04473, sec. 4.1; DeepSpeed 0.19.8: deepspeed/runtime/pipe/engine.py, PartitionedTensor",
    scatters=True,
)
