"""Aggregate functions: their table, and how calls of them are typed and lowered."""
