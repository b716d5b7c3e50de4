"""What the other services say about themselves and about the streams."""
