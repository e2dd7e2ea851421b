"""From source to hit: readers, passages, encoder, corpora and search. Imports neither torch nor fastapi."""
