"""From the pieces of a model to the seconds of a step."""
