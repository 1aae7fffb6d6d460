"""One layer: its operators, what they take and leave, and what its ranks send one another."""
