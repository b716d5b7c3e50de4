"""Series functions, which give many rows or look at neighbours: how they are typed and lowered."""
