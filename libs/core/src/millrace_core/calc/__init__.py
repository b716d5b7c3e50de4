"""The rules of calculation that need no I/O: what a job takes and what it gives."""
