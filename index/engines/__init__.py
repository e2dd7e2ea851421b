"""Corpora whose vectors, postings and documents an engine holds, on this machine or on others."""
