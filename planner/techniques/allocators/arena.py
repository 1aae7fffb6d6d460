"""One arena, in which a compiler gave each tensor its place before the program runs."""

from planner.techniques.allocators.family import Allocator

ENTRY = Allocator(
    name="arena",
    cite="https://github.com/openxla/xla, xla/service/buffer_assignment.h, BufferAssignment",
    told="with places that the compiler planned",
    planned=True,
)
