"""Algorithms that find anomalies."""
