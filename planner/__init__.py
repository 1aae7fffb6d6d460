"""Parallelism planner and cost-model auto-tuner for training large models."""
