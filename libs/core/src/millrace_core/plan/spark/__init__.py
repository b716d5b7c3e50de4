"""Spark SQL: its text, and the small parts and levels of nested SELECTs that it is built of."""
