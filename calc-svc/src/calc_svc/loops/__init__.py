"""The loops that run: they read the log, calculate and recalculate, and flush."""
