"""One training step, played event by event."""
