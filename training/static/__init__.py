"""The static encoder: word vectors, distilled from a transformer and aligned on pairs."""
