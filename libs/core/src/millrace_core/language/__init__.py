"""What the dialects have in common: the lexer, statements, expressions of queries, values and times."""
