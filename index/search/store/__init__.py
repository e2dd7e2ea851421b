"""The documents of a build on disk: records, names and filterable fields."""
