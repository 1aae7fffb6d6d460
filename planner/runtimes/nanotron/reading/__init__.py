"""Readers of launch files of nanotron."""
