"""Products: tables and feeds as one document per product."""
