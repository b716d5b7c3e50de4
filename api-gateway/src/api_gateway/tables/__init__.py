"""What statements and protocols do with tables and their rows."""
