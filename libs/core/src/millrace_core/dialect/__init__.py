"""The languages that Millrace speaks: one folder for each (``front_ends``), all built on ``language``."""
