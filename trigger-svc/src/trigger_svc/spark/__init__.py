"""The code that knows Spark: its session, the query, the files of its checkpoint, its workers."""
