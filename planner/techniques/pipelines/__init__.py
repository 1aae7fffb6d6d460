"""Whose code runs a pipeline's stages: their messages, and how a step ends, by name."""

from planner.registry import load_family
from planner.techniques.pipelines.family import PipelineCode

PIPELINE_CODES = load_family(__name__, PipelineCode)

__all__ = ["PIPELINE_CODES", "PipelineCode"]
