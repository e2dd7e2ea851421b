"""The texts of documents: passages, fields of products, quantities, and scripts without spaces."""
