"""What a windower depends on, besides the trigger clause."""

from __future__ import annotations

from dataclasses import dataclass

from millrace_core.model.schema import Table
from millrace_core.model.stream import Duration, Emission, Notify, Options
from millrace_core.timeline import ticks


@dataclass(frozen=True, slots=True)
class Setting:
    """The stream around a trigger: its trigger table, its options, whether and of what it notifies, and what
    happens to results."""

    table: Table
    options: Options
    notify: Notify | None
    emission: Emission

    def ticks(self, duration: Duration | None) -> int:
        """A length in ticks of the trigger table, 0 for none.

        :raises MillraceError: INVALID_VALUE for one that is not a whole number of ticks.
        """
        return ticks(duration, self.table.precision) if duration else 0

    @property
    def empty(self) -> bool:
        """Whether windows and instants without rows fire too."""
        return not self.options.ignore_nodata_trigger

    @property
    def shared(self) -> bool:
        """Whether rows of one table with equal times may be different rows."""
        return self.table.has_composite_key

    @property
    def notifies(self) -> bool:
        """Whether somebody is told of the windows, with what only the windower knows of them."""
        return self.notify is not None

    @property
    def retracts(self) -> bool:
        """Whether results that are no longer valid are retracted."""
        return self.emission.obsolete == "retracted"

    @property
    def tells_openings(self) -> bool:
        """Whether somebody wants to know when a window opens."""
        return "WINDOW_OPEN" in (*self.options.event_types, *(self.notify.events if self.notify else ()))
