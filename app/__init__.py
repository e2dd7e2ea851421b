"""From request to response: the HTTP service. The only package that imports fastapi."""
