"""Public recipes as a test of the search."""
