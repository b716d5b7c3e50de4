"""What a stream's own query may take, and what becomes of one that takes more."""
