"""Whose code calls the attention kernel, and what that copies around it, by name."""

from planner.registry import load_family
from planner.techniques.attention_codes.family import AttentionCode

ATTENTION_CODES = load_family(__name__, AttentionCode)

__all__ = ["ATTENTION_CODES", "AttentionCode"]
