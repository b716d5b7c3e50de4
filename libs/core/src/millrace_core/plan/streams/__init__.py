"""What a stream adds to a query: its trigger relation, OUTPUT_SUBTABLE and TAGS."""
