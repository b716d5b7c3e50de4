"""What splits a SELECT into several levels: aggregates, running aggregates, and series functions."""
