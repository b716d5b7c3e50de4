"""Series functions, which give many rows or look at neighbouring rows: how they are typed and lowered."""
