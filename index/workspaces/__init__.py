"""Directories that are searched without setup, and their indexes in the user's cache."""
