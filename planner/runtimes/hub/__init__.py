"""Models as Hugging Face's files describe them: a ``config.json`` of a type that has exactly their parts."""
