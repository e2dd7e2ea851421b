"""Measures against judged queries, questions and labelled texts."""
