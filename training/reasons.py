"""Reasons of failures, in a line."""

from __future__ import annotations


def first_line(error: Exception) -> str:
    """Return the first line of an error's message, at most 300 characters of it."""
    return str(error).strip().partition("\n")[0][:300]
