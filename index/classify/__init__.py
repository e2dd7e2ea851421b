"""Zero-shot and trained classification."""
