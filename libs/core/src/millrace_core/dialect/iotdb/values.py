"""Values for series: which type they have if none is known, and which values fit which type."""

from __future__ import annotations

import math
import re
from datetime import date

import numpy as np

from millrace_core.dialect.iotdb.codes import IotdbError
from millrace_core.dialect.iotdb.times import Moment, TimeContext, resolve
from millrace_core.errors import Position
from millrace_core.model.types import MAX_LENGTH

INTEGERS = {"INT32": 31, "INT64": 63}
_FLOAT_MAX = 3.4028234663852886e38
WIDER: dict[str, frozenset[str]] = {
    "INT32": frozenset({"INT32", "INT64", "FLOAT", "DOUBLE"}), "INT64": frozenset({"INT64", "DOUBLE"}),
    "FLOAT": frozenset({"FLOAT", "DOUBLE"}), "DOUBLE": frozenset({"DOUBLE"}),
    "BOOLEAN": frozenset({"BOOLEAN"}), "TEXT": frozenset({"TEXT", "STRING"}),
    "STRING": frozenset({"TEXT", "STRING"}), "TIMESTAMP": frozenset({"TIMESTAMP", "INT64"}),
    "DATE": frozenset({"DATE"}), "BLOB": frozenset({"BLOB"}),
}  # fmt: skip
"""For each type of results, the types of existing series that accept it (SEMANTICS-FRONTENDS, S6)."""


class Unfit(Exception):
    """A value that does not fit its series; ``str()`` says why."""


def type_of(value: object) -> str | None:
    """The type of a series that is created by writing this value (SEMANTICS-FRONTENDS, data model); None: a
    NULL creates no series."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "BOOLEAN"
    if isinstance(value, int | float):
        return "DOUBLE"
    if isinstance(value, bytes):
        return "BLOB"
    return "TIMESTAMP" if isinstance(value, Moment) else "TEXT"


def fit(value: object, type_: str, session: TimeContext) -> object:
    """The value as the series holds it: bool, int (TIMESTAMP: milliseconds), float, str (DATE:
    ``2026-01-31``; BLOB: ``0x`` and hexadecimal digits) or None.

    :raises Unfit: if it does not fit.
    """
    if value is None:
        return None
    found: object = None
    if type_ in INTEGERS:
        found = _integer(value, INTEGERS[type_])
    elif type_ in ("FLOAT", "DOUBLE"):
        found = _real(value, type_)
    elif type_ == "BOOLEAN":
        found = _boolean(value)
    elif type_ == "TIMESTAMP":
        found = _timestamp(value, session)
    elif type_ == "DATE":
        found = _date(value)
    else:
        found = _blob(value) if type_ == "BLOB" else _text(value)
        if found is not None and len(found.encode("utf-8", "surrogatepass")) > MAX_LENGTH:
            raise Unfit(f"a value of {len(found)} characters is too long: {type_} allows {MAX_LENGTH} bytes")
    if found is None:
        shown = value.text or "now()" if isinstance(value, Moment) else str(value)
        raise Unfit(f"{shown[:64]!r} is not a valid {type_}")
    return found


def _integer(value: object, bits: int) -> int | None:
    if isinstance(value, str):
        try:
            value = int(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if -(1 << bits) <= value < 1 << bits else None


def _real(value: object, type_: str) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    if not math.isfinite(found) or (type_ == "FLOAT" and abs(found) > _FLOAT_MAX):
        return None
    return found


def number_of(value: object, type_: str) -> int | float | None:
    """The number as a series of the type holds it; None: it is not a number, or does not fit."""
    if isinstance(value, str):
        return None
    return _real(value, type_) if type_ in ("FLOAT", "DOUBLE") else _integer(value, INTEGERS.get(type_, 63))


def _boolean(value: object) -> bool | None:
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        return {"true": True, "false": False, "1": True, "0": False}.get(value.lower())
    return bool(value) if value in (0, 1) else None


def _timestamp(value: object, session: TimeContext) -> int | None:
    if isinstance(value, Moment):
        return resolve(value, session)
    found = _integer(value, 63)
    if found is None and isinstance(value, str):
        try:
            return resolve(Moment(value, 0, Position(1, 1)), session)
        except IotdbError:
            return None
    return found


_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_HEXADECIMAL = re.compile(r"0[xX]((?:[0-9a-fA-F]{2})*)")


def _date(value: object) -> str | None:
    """The day, if the value is a date without a time."""
    text = value.text if isinstance(value, Moment) and not value.offset else value
    if not isinstance(text, str) or not _DAY.fullmatch(text):
        return None
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        return None


def _blob(value: object) -> str | None:
    if isinstance(value, bytes):
        return f"0x{value.hex()}"
    found = _HEXADECIMAL.fullmatch(value) if isinstance(value, str) else None
    return None if found is None else f"0x{found[1].lower()}"


def _text(value: object) -> str | None:
    """The text; a number or truth value as text."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    if not isinstance(value, str) or "\0" in value or any("\ud800" <= char <= "\udfff" for char in value):
        return None
    return value


def shortest(value: object) -> object:
    """The shortest number that gives the same FLOAT: 1.1, not 1.10000002384."""
    return float(str(np.float32(value))) if isinstance(value, float) and math.isfinite(value) else value


def rows_by_columns(times: list[int], columns: dict[str, list[object]]) -> list[dict[str, list[object]]]:
    """Rows of one device as sets of columns without NULL, ``time`` among them: a NULL keeps what is stored.

    Of several rows with the same time, later values count; a row of NULLs alone is left out.
    """
    merged: dict[int, dict[str, object]] = {}
    names = list(columns)
    for time, *cells in zip(times, *columns.values(), strict=True):
        row = merged.setdefault(time, {})
        row.update((name, cell) for name, cell in zip(names, cells, strict=True) if cell is not None)
    kinds: dict[tuple[str, ...], dict[str, list[object]]] = {}
    for time, row in merged.items():
        if not row:
            continue
        kind = tuple(name for name in names if name in row)
        found = kinds.setdefault(kind, {name: [] for name in ("time", *kind)})
        found["time"].append(time)
        for name in kind:
            found[name].append(row[name])
    return list(kinds.values())
