"""Code: a repository as definitions and windows of lines."""
