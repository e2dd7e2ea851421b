"""Question answering over a reference."""
