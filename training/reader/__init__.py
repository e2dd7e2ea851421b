"""The reader of reference QA: a cross-encoder that finds answers in passages."""
