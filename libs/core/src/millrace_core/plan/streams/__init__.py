"""What a stream adds to a query: its trigger relation, NOTIFY, FORCE_OUTPUT, OUTPUT_SUBTABLE and TAGS."""
