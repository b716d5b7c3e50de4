"""What Millrace is told: types, tables, streams. Frozen, serialisable, without behaviour of their own."""
