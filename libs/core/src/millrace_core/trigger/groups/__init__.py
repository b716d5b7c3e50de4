"""The groups of a stream: which there are, what is kept of each, how far each has come."""

from millrace_core.trigger.groups.columns import Columns
from millrace_core.trigger.groups.groups import Groups
from millrace_core.trigger.groups.watermark import NEVER, RANGE

__all__ = ["NEVER", "RANGE", "Columns", "Groups"]
