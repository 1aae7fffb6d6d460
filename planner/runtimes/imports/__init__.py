"""The way back: what a runner's own file says of a plan, by the names of the command line's options."""
