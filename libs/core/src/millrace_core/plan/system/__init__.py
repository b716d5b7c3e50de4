"""The tables of information_schema."""
