"""What is trained on: pairs, questions and masked entities."""
