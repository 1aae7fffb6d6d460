"""Readers of launch files of Megatron-Bridge, and of NeMo before it."""
