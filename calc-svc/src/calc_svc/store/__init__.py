"""What has been read from the log: the catalog, and the rows of all tables, in memory and in files."""
