"""Conditions on single rows: from the text in a statement to the expression that trigger-svc computes without
SQL."""

from millrace_core.conditions.row import condition, group_key
from millrace_core.conditions.spelling import condition_expression

__all__ = ["condition", "condition_expression", "group_key"]
