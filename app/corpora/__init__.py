"""The corpora of a server: which builds are open, how fresh they are, and how new ones are made."""
