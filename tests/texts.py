"""Texts of any letters, for tests that draw them."""

from __future__ import annotations

from hypothesis import strategies as st

LETTERS = st.characters(exclude_categories=["Cs"])
"""All letters but halves of a pair: as of a plain ``st.text()``, which first tries a million encodings."""
