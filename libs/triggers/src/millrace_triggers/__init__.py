"""What the class of a trigger is written against: :class:`Trigger`, and the :class:`Tablet` that it receives.

A class need not derive from :class:`Trigger`; it is enough to have some of its methods.
"""

from millrace_triggers.tablet import Tablet
from millrace_triggers.trigger import OPTIMISTIC, PESSIMISTIC, Trigger

__all__ = ["OPTIMISTIC", "PESSIMISTIC", "Tablet", "Trigger"]
