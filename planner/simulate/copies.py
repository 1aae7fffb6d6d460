"""Activations that go to the host beside a bare pipeline's passes; plans are priced by the same ones."""

from planner.techniques.schedules.copies import CopiedStep, Copy, CopyRecord, play_copied

__all__ = ["CopiedStep", "Copy", "CopyRecord", "play_copied"]
