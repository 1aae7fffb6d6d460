"""Assignment: which layers each pipeline stage holds, and what each of them recomputes."""
