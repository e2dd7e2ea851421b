"""Pages of HTML as a stream of tags, into definitions and sections."""
