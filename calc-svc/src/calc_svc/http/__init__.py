"""The HTTP door: queries, descriptions, verification."""
