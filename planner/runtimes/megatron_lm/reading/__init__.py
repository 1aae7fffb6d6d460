"""Readers of launch files of Megatron-LM, and of programs that are forks of it or start it."""
