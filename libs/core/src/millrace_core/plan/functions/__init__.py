"""Scalar functions: one table, made from those for numbers, texts and times; and CAST."""
