"""Series functions: those that give many rows, or look at neighbouring ones."""
