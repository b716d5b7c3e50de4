"""Algorithms that forecast."""
