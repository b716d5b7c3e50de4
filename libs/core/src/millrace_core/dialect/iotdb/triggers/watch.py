"""Which series a trigger watches."""

from __future__ import annotations

from collections.abc import Sequence

from millrace_core.dialect.iotdb.cursor import Cursor
from millrace_core.dialect.iotdb.paths import MANY, ONE, Node, Pattern
from millrace_core.dialect.iotdb.schema import text_regex
from millrace_core.model.device import Device, Series


def read_pattern(text: str) -> Pattern:
    """The pattern in a text that ``str`` wrote. :raises IotdbError: if the text is not a pattern."""
    cursor = Cursor(text)
    found = cursor.path("a path pattern", checked=False)
    cursor.finish()
    return found


class Watch:
    """A pattern over series: ``*`` is one level or a part of one, ``**`` is one or more. Devices are looked
    up again and again, so the result is kept until the device has other series."""

    def __init__(self, pattern: Pattern) -> None:
        self._pattern = pattern
        *above, last = pattern.nodes
        # as in Schema.series: a final ** matches what is below a device, or devices and what is below them
        heads = [above, list(pattern.nodes)] if last == Node(MANY) else [above]
        self._devices = [text_regex(head) for head in heads if head]
        self._last = Pattern((last,))
        self._any = last in (Node(ONE), Node(MANY))
        self._found: dict[str, tuple[Device, tuple[Series, ...]]] = {}

    def reaches(self, database: Sequence[str]) -> bool:
        """Whether the pattern can match a series in the database with these nodes."""
        for place, name in enumerate(database):
            if place >= len(self._pattern.nodes):
                return False
            node = self._pattern.nodes[place]
            if not node.quoted and node.text == MANY:
                return True
            if not Pattern((node,)).matches((name,)):
                return False
        return True

    def series_of(self, device: Device) -> tuple[Series, ...]:
        """The series of a device that the pattern matches, ordered by measurement."""
        known = self._found.get(device.name)
        if known is not None and known[0] is device:
            return known[1]
        meant: list[Series] = []
        if any(one.fullmatch(device.name) for one in self._devices):
            meant = [one for one in device.series if self._any or self._last.matches((one.measurement,))]
        found = tuple(sorted(meant, key=_measurement))
        self._found[device.name] = device, found
        return found


def _measurement(series: Series) -> str:
    return series.measurement
