"""Bytes on a rank, a node and a disk, and whether they fit."""
