"""SELECT over series: what it reads, the SQL that reads it, and how the answer is put together."""
