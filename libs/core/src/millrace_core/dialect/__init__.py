"""Languages that Millrace speaks: a folder for each (``front_ends``), over shared lexing and queries."""
