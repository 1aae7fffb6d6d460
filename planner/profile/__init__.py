"""Measure the local accelerators: kernels, copies and collectives, and a plan's own layers."""
