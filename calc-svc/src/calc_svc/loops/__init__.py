"""The works that run: what reads the log, what calculates and recalculates, what flushes."""
