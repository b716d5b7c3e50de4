"""What Millrace is told: types, tables, streams. Frozen and serialisable, with no behaviour of their own."""
