"""Scalar functions: one table, made of those of numbers, text and times. CAST is one of them."""
