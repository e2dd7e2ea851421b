"""The models that are trained, and the base models that they start from."""
