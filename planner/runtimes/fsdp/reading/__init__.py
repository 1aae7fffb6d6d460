"""Readers of launch files of Accelerate."""
