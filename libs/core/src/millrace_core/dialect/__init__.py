"""Millrace's SQL: text to statements (:func:`parse`), those to the model (``stream.lower``, ``values``)."""

from millrace_core.dialect.parser import parse
from millrace_core.dialect.statements import Statement

__all__ = ["Statement", "parse"]
