"""Questions over references, with the passages that answer them and those that do not."""
