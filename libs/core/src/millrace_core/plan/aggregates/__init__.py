"""Aggregate functions: their table, how they are typed and lowered."""
