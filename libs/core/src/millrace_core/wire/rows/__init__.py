"""What the messages of a table's WAL topic hold: rows as JSON or Arrow, decoded strictly."""
