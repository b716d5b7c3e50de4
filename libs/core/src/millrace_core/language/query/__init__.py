"""The query language: text becomes sqlglot trees whose names, literals and calls know their places."""

from millrace_core.language.query.parse import parse_expression, parse_query, placeholders

__all__ = ["parse_expression", "parse_query", "placeholders"]
