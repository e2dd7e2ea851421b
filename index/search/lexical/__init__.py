"""Search by words: BM25 over postings of tokens."""
