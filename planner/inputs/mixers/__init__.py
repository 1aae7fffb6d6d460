"""Mixers that pass a state along the sequence, one kind in each file."""
