"""Pairs of a query and a passage: from which sources, in which forms, and what is left out."""
