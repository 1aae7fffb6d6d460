"""What passes between ranks outside a layer: data parallelism, stages, and a plan that changes."""
