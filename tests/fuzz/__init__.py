"""Broken inputs by the thousand: ``python -m tests.fuzz 20000`` tells each that ends in no message."""
