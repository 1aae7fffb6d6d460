"""Readers of launch files of DeepSpeed."""
