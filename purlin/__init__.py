"""Structure-aware retrieval: search, zero-shot classification and reference QA."""
