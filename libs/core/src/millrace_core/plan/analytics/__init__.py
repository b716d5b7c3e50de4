"""ANOMALY_WINDOW and FORECAST: rows gathered into arrays for an algorithm."""
