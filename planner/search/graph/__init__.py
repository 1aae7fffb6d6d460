"""Any graph of layers cut into the stages of a pipeline."""
