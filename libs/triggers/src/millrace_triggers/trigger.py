"""The class of a trigger (SEMANTICS-FRONTENDS, S5)."""

from __future__ import annotations

from collections.abc import Mapping

from millrace_triggers.tablet import Tablet

OPTIMISTIC = "OPTIMISTIC"
"""A firing that fails is counted and logged. The write goes on, and so do the other triggers."""
PESSIMISTIC = "PESSIMISTIC"
"""A firing that fails fails the request: BEFORE INSERT nothing is stored; AFTER INSERT the answer says so."""


class Trigger:
    """The methods are all optional. None is called by two threads at once.

    An instance lives in a process of its own. ``on_create`` is called once for each instance: the
    first is made by CREATE TRIGGER, further ones after a restart or a crash. An exception in a method
    fails what was asked.
    """

    def validate(self, attributes: Mapping[str, str]) -> None:
        """Refuse attributes of CREATE TRIGGER by raising; called only before the first ``on_create``."""

    def on_create(self, attributes: Mapping[str, str]) -> None:
        """Take over the attributes and open what is needed."""

    def on_drop(self) -> None:
        """Close what was opened; called once, by DROP TRIGGER. The trigger is gone even if this raises."""

    def state(self) -> object:
        """What a STATEFUL trigger is to keep: None, numbers, text, bytes, lists and dicts. Asked for after
        firings; the last state that was kept comes back through :meth:`restore`."""
        return None

    def restore(self, state: object) -> None:
        """Called after ``on_create`` for a STATEFUL trigger whose process was started anew. ``state``: what
        :meth:`state` returned (tuples come back as lists); None if it was never asked."""

    def failure_strategy(self) -> str:
        """:data:`OPTIMISTIC` or :data:`PESSIMISTIC`; asked once, after the first ``on_create``."""
        return OPTIMISTIC

    def fire(self, tablet: Tablet) -> bool | None:
        """Look at rows that are written. False, or an exception, is a failure; None is not."""
        return True
