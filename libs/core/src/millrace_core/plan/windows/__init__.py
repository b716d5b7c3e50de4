"""Window clauses: they cut a query's rows into windows; and what FILL wants from these."""
