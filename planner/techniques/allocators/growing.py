"""PyTorch's caching allocator whose segments grow: pages are joined to those in use."""

from planner.techniques.allocators.family import Allocator

ENTRY = Allocator(
    name="growing",
    cite="https://docs.pytorch.org/docs/stable/notes/cuda.html, expandable_segments; PyTorch 2.9: "
    "c10/cuda/CUDACachingAllocator.cpp, ExpandableSegment",
    told="with `expandable_segments:True`, which the launch files set",
)
