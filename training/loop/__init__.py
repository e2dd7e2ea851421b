"""The training loop: one for all papers, and what a run keeps on disk."""
