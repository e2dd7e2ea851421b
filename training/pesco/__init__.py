"""PESCO: self-training of a classifier from unlabelled texts."""
