"""Search: one build, open for queries."""
