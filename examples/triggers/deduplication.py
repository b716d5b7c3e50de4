"""A copy of series without the values that repeat the one before. Put this into the trigger folder, then:

CREATE STATEFUL TRIGGER changes AFTER INSERT ON root.plant.**.status
AS 'deduplication:Changes' WITH ("suffix" = "_changes")
"""

from __future__ import annotations

from collections.abc import Mapping

from millrace_triggers import Tablet, Trigger


class Changes(Trigger):
    """Keeps the last value of each series, over restarts too. Rows count in the order in which they are
    written."""

    def validate(self, attributes: Mapping[str, str]) -> None:
        if not attributes["suffix"].replace("_", "a").isalnum():
            raise ValueError('"suffix" must consist of letters, digits and _')

    def on_create(self, attributes: Mapping[str, str]) -> None:
        self._suffix = attributes["suffix"]
        self._last: dict[str, object] = {}

    def state(self) -> object:
        return self._last

    def restore(self, state: object) -> None:
        self._last = dict(state) if isinstance(state, dict) else {}

    def fire(self, tablet: Tablet) -> bool:
        for time, row in tablet.rows():
            for name, value in row.items():
                series = f"{tablet.device}.{name}"
                # what this writes may match its own pattern
                if not name.endswith(self._suffix) and self._last.get(series) != value:
                    self._last[series] = value
                    tablet.write(series + self._suffix, time, value)
        return True
