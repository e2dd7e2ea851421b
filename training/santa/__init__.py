"""SANTA: an encoder for code and products, trained on pairs, masked entities and queries."""
