"""The catalog's one writer, and the life of the topics that its tables have."""
