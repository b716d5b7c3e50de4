"""FILL beside windows, and INTERP with RANGE, EVERY and FILL."""
