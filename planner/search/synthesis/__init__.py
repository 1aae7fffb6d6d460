"""Schedules made for given pass times: hand-made seeds, list scheduling, annealing, a program, and bounds."""
