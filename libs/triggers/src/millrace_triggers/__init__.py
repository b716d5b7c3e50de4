"""What the class of a trigger is written against: :class:`Trigger`, and the :class:`Tablet` that it is given.

A class need not be derived from :class:`Trigger`; to have some of its methods is enough.
"""

from millrace_triggers.tablet import Tablet
from millrace_triggers.trigger import OPTIMISTIC, PESSIMISTIC, Trigger

__all__ = ["OPTIMISTIC", "PESSIMISTIC", "Tablet", "Trigger"]
