"""Aggregate functions, and the SELECT that groups by them."""
