"""One handler for each SQL statement, and the table that finds it."""
