"""The rules of calculating that need no I/O: what a job takes, what it gives."""
