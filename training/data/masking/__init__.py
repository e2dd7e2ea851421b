"""Masked entities: which there are in a passage, and the texts without them."""
