"""Training data: pairs, questions and masked entities."""
