"""Messages of tables and other topics, the rows in them, and what streams read from a row."""

from millrace_core.trigger.rows.intake import Messages, distinct, present, read
from millrace_core.trigger.rows.signals import Signal, evaluate

__all__ = ["Messages", "Signal", "distinct", "evaluate", "present", "read"]
