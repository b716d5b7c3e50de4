"""The rows of a table in memory: sorted runs, last write wins, slices by binary search. Pure: no I/O."""
