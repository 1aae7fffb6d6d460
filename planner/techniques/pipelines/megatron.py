"""Megatron-core's: each rank sends what it holds, and waits for what it receives."""

from planner.techniques.pipelines.family import PipelineCode

ENTRY = PipelineCode(
    name="megatron",
    cite="Megatron-LM d98e8a64: megatron/core/pipeline_parallel/p2p_communication.py",
)
