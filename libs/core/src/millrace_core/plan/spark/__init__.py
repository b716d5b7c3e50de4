"""Spark SQL: its text, and the small parts that it is built of."""
