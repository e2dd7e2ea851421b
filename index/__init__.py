"""From source to hit: readers, passages, encoder, corpora and search. Imports neither torch nor fastapi."""

# A codec whose first use fails, for want of a file descriptor or of rights, is unknown for good.
import encodings.utf_8_sig  # noqa: F401
