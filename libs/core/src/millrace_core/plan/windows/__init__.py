"""Window clauses: rows of a query cut into windows, and what FILL asks of them."""
