"""What statements and protocols do to tables and their rows."""
