"""A device of IoTDB as the catalog keeps it: which series it has, and where their values are."""

from __future__ import annotations

import msgspec


class Series(msgspec.Struct, frozen=True, array_like=True):
    """A measurement of a device: IoTDB's name of its type, and the column of the database's table of devices
    that holds its values."""

    measurement: str
    type: str
    column: str


class Device(msgspec.Struct, frozen=True):
    """Its rows are in the child table ``name``, the device's path. ``series``: in the order they came.

    ``table``, ``incarnation``: the uid of the table of devices, and the child's incarnation. They do not
    match a table that was made anew under the name. ``aligned``: created as aligned; this is shown, and has
    no other effect. ``created``: milliseconds.
    """

    db: str
    name: str
    series: tuple[Series, ...] = ()
    aligned: bool = False
    created: int = 0
    table: int = 0
    incarnation: int = 0

    def find(self, measurement: str) -> Series | None:
        return next((one for one in self.series if one.measurement == measurement), None)
