"""What makes several levels of one SELECT: aggregates, running aggregates, functions over a series."""
