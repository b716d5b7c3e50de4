"""The class of a trigger (SEMANTICS-FRONTENDS, S5)."""

from __future__ import annotations

from collections.abc import Mapping

from millrace_triggers.tablet import Tablet

OPTIMISTIC = "OPTIMISTIC"
"""A firing that fails is counted and logged. The write goes on, and so do the other triggers."""
PESSIMISTIC = "PESSIMISTIC"
"""A firing that fails fails the request: BEFORE INSERT nothing is stored, AFTER INSERT it says so."""


class Trigger:
    """All methods may be left out. None is called by two threads at once.

    An instance lives in a process of its own. ``on_create`` is called once for each instance: the first by
    CREATE TRIGGER, further ones after a restart or a crash. What a method raises fails what was asked.
    """

    def validate(self, attributes: Mapping[str, str]) -> None:
        """Refuse attributes of CREATE TRIGGER by raising; called before the first ``on_create`` alone."""

    def on_create(self, attributes: Mapping[str, str]) -> None:
        """Take over the attributes, open what is needed."""

    def on_drop(self) -> None:
        """Close it; called once, by DROP TRIGGER. The trigger is gone even if this raises."""

    def state(self) -> object:
        """What a STATEFUL trigger is to keep: None, numbers, text, bytes, lists and dicts. Asked for after
        firings; the last one that was kept comes back through :meth:`restore`."""
        return None

    def restore(self, state: object) -> None:
        """Called after ``on_create`` for a STATEFUL trigger whose process was started anew. ``state``: as
        :meth:`state` gave it (tuples come back as lists); None if it was never asked."""

    def failure_strategy(self) -> str:
        """:data:`OPTIMISTIC` or :data:`PESSIMISTIC`; asked once, after the first ``on_create``."""
        return OPTIMISTIC

    def fire(self, tablet: Tablet) -> bool | None:
        """Look at rows that are written. False, or an exception, is a failure; None is none."""
        return True
