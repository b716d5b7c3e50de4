"""Which series a trigger watches."""

from __future__ import annotations

from collections.abc import Sequence

from millrace_core.dialect.iotdb.cursor import Cursor
from millrace_core.dialect.iotdb.paths import MANY, Pattern, read_path
from millrace_core.model.device import Device, Series


def read_pattern(text: str) -> Pattern:
    """The pattern that ``str`` wrote. :raises IotdbError: for what is none."""
    cursor = Cursor(text)
    found = cursor.path("a path pattern")
    cursor.finish()
    return found


class Watch:
    """A pattern over series: ``*`` one level or a part of one, ``**`` one or more. Devices are asked for
    again and again, so what was found is kept until the device has other series."""

    def __init__(self, pattern: Pattern) -> None:
        self._pattern = pattern
        self._found: dict[str, tuple[Device, tuple[Series, ...]]] = {}

    def reaches(self, database: Sequence[str]) -> bool:
        """Whether a series in a database of these nodes can match."""
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
        """The series of a device that the pattern means, by measurement."""
        known = self._found.get(device.name)
        if known is not None and known[0] is device:
            return known[1]
        nodes = read_path(device.name)
        meant = [one for one in device.series if self._pattern.matches((*nodes, one.measurement))]
        found = tuple(sorted(meant, key=lambda one: one.measurement))
        self._found[device.name] = device, found
        return found
