"""Sources to a finished build."""
