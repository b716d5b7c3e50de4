"""What is calculated at a time: stored rows and a query to results, one stream's or one user's."""
