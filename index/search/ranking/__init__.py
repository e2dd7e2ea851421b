"""From what the retrievers give to one ranking of passages."""
