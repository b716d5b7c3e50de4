"""Rows of IoTDB's RPC as tablets of devices. See ``millrace_core.wire.iotdb`` for what the bytes hold."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from api_gateway.iotdb.write import Tablet
from millrace_core.dialect.iotdb import IotdbError, Status
from millrace_core.dialect.iotdb.codes import unsupported
from millrace_core.dialect.iotdb.cursor import Cursor
from millrace_core.dialect.iotdb.paths import TIMES, Pattern, read_path
from millrace_core.wire.iotdb import rows

Row = tuple[int, list[str], list[str | None], list[object]]
"""Time, measurements, types (None: not given) and values."""


def path(text: str, what: str) -> Pattern:
    """A path without wildcards. :raises IotdbError: if it is not one."""
    cursor = Cursor(text)
    found = cursor.full_path(what)
    cursor.finish()
    if len(found.nodes) < 2:
        raise IotdbError(Status.ILLEGAL_PATH, f"root is not {what}")
    return found


def names(measurements: Sequence[str]) -> list[str]:
    """The plain names of measurements. :raises IotdbError: for what is no name, or comes twice."""
    found = []
    for text in measurements:
        name = read_path(text)[0] if text.startswith("`") and text.endswith("`") and len(text) > 2 else text
        if not name or "\0" in name or name.lower() in TIMES:
            raise IotdbError(Status.ILLEGAL_PARAMETER, f"{text!r} is not a valid name for a measurement")
        found.append(name)
    if len(set(found)) < len(found):
        raise IotdbError(Status.ILLEGAL_PARAMETER, "a measurement is given twice")
    return found


def uneven(*lists: Sequence[Any]) -> None:
    """:raises IotdbError: if the lists are not equally long."""
    if len({len(one) for one in lists}) > 1:
        raise IotdbError(
            Status.ILLEGAL_PARAMETER,
            "the numbers of paths, times, measurements, types and values do not match",
        )


def tablet(
    device: str, measurements: list[str], types: list[int], values: bytes, times: bytes, size: int,
    aligned: bool,
) -> Tablet:  # fmt: skip
    """A tablet as it came. :raises MillraceError: if it is not one."""
    uneven(measurements, types)
    kinds = [rows.type_of(number) for number in types]
    found = names(measurements)
    columns = rows.tablet(values, kinds, size)
    return Tablet(
        path(device, "a device").names, rows.times(times, size), dict(zip(found, columns, strict=True)),
        dict(zip(found, kinds, strict=True)), aligned,
    )  # fmt: skip


def check_plain(asked: Any) -> None:
    """:raises IotdbError: for a tablet of IoTDB's table model, or a compressed one."""
    if asked.writeToTable:
        raise unsupported("the table model is not supported: write to devices")
    if asked.isCompressed:
        raise unsupported("compressed tablets are not supported: turn off compression in the client")


def record(at: int, measurements: list[str], values: bytes) -> Row:
    found = rows.record(values, len(measurements))
    return at, names(measurements), found.types, found.values


def texts(at: int, measurements: list[str], values: list[str]) -> Row:
    """A row of texts; the types are guessed from them."""
    uneven(measurements, values)
    guessed: list[str | None] = [_guess(value) for value in values]
    return at, names(measurements), guessed, list(values)


def _guess(text: str) -> str:
    if text.lower() in ("true", "false"):
        return "BOOLEAN"
    try:
        float(text)
    except ValueError:
        return "TEXT"
    return "DOUBLE"


def together(device: str, given: Sequence[Row], aligned: bool) -> list[Tablet]:
    """Rows of one device as tablets: consecutive rows that are alike become one tablet."""
    nodes = path(device, "a device").names
    found = []
    for (measurements, types), some in groupby(given, key=lambda row: (row[1], row[2])):
        alike = list(some)
        columns: dict[str, list[object]] = {
            name: [row[3][place] for row in alike] for place, name in enumerate(measurements)
        }
        kinds = {name: type_ for name, type_ in zip(measurements, types, strict=True) if type_ is not None}
        found.append(Tablet(nodes, [row[0] for row in alike], columns, kinds, aligned))
    return found
