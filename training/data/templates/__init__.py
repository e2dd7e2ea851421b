"""Questions that are made of a reference's definitions by rules."""
