"""One calculation: from stored rows and a query to results, for one stream or one user."""
