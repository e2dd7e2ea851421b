"""The reranker: a cross-encoder that scores the first hits of a search again."""
