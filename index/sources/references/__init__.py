"""References: manuals in HTML, markup and macros as definitions and sections of prose."""
