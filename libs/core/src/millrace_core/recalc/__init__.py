"""Windows that are cut again from stored rows: what must be read, what has changed, what is told. Pure."""
