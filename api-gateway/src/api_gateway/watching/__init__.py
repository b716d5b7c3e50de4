"""What the other services say of themselves and of the streams."""
