"""Expressions: their types (``annotate``), and Spark's expressions for them (``lower``)."""
