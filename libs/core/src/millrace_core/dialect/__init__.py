"""Languages that Millrace speaks: a folder for each (``front_ends``), over ``language``, which they share."""
