"""Readers of launch files of fine-tuning libraries, and of trainers that they stand on."""
