"""The pure core of Millrace: data in, data out; no I/O, clock, thread or environment."""
