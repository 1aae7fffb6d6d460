"""Exchanges between replicas played event by event, and layer by layer."""
