"""The demo: a year of hourly temperatures of two cities through two streams, checked against DuckDB."""
