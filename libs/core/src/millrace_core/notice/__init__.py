"""Delivery of notifications without I/O: messages, what to do for an address, which log offsets are done."""
