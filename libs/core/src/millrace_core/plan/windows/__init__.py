"""Window clauses: rows of a query cut into windows."""
