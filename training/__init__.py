"""From documents to an exported encoder directory. The only package that imports torch."""
