"""Training over several sites: plans inside each, and how they keep together."""
