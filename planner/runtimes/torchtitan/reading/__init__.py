"""Readers of launch files of torchtitan."""
