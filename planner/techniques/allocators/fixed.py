"""PyTorch's caching allocator as it is by default: what is left of a segment in use serves no larger tensor.

Beside what passes take, it needs 3 to 11% where the device is full, and holds 13 to 37% where it is not: 14
jobs of as many sets of tensor sizes, played tensor by tensor on such an allocator.
"""

from planner.techniques.allocators.family import Allocator

ENTRY = Allocator(
    name="fixed",
    cite="PyTorch 2.9: c10/cuda/CUDACachingAllocator.cpp, malloc and release_cached_blocks",
    told="with segments of PyTorch's allocator that do not grow",
    needed=0.07,
    shown=0.3,
    retries=True,
)
