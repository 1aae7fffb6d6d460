"""A model of one's own, from its code: exported by PyTorch, its operators folded into known layers."""
