"""A slot: a fixed share of all tables and groups, and everything that triggers in it."""

from millrace_core.trigger.slot.isolation import BatchResult, evaluate_batch
from millrace_core.trigger.slot.slot import Slot
from millrace_core.trigger.slot.state import VERSION

__all__ = ["VERSION", "BatchResult", "Slot", "evaluate_batch"]
