"""Values for series: their types where none is known, and what fits which type."""

from __future__ import annotations

import math

from millrace_core.dialect.iotdb.times import Moment, Session, resolve

INTEGERS = {"INT32": 31, "INT64": 63}
_FLOAT_MAX = 3.4028234663852886e38
WIDER: dict[str, frozenset[str]] = {
    "INT32": frozenset({"INT32", "INT64", "FLOAT", "DOUBLE"}), "INT64": frozenset({"INT64", "DOUBLE"}),
    "FLOAT": frozenset({"FLOAT", "DOUBLE"}), "DOUBLE": frozenset({"DOUBLE"}),
    "BOOLEAN": frozenset({"BOOLEAN"}), "TEXT": frozenset({"TEXT", "STRING"}),
    "STRING": frozenset({"TEXT", "STRING"}), "TIMESTAMP": frozenset({"TIMESTAMP", "INT64"}),
}  # fmt: skip
"""The types of existing series into which a result of a type goes (SEMANTICS-FRONTENDS, S6)."""


class Unfit(Exception):
    """A value that does not fit its series; ``str()`` says why."""


def type_of(value: object) -> str | None:
    """The type of a series that is made by writing this value (SEMANTICS-FRONTENDS, data model); None: a NULL
    makes none."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "BOOLEAN"
    if isinstance(value, int | float):
        return "DOUBLE"
    return "TIMESTAMP" if isinstance(value, Moment) else "TEXT"


def fit(value: object, type_: str, session: Session) -> object:
    """The value as the series holds it: bool, int (TIMESTAMP: milliseconds), float, str or None.

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
        if isinstance(value, Moment):
            return resolve(value, session)
        found = _integer(value, 63)
    elif isinstance(value, str) and "\0" not in value:
        found = value
    if found is None:
        raise Unfit(f"{str(value)[:64]!r} is no {type_}")
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


def _boolean(value: object) -> bool | None:
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        return {"true": True, "false": False}.get(value.lower())
    return bool(value) if value in (0, 1) else None


def rows_by_columns(times: list[int], columns: dict[str, list[object]]) -> list[dict[str, list[object]]]:
    """Rows of one device as sets of columns without NULL, ``time`` among them: a NULL leaves what is stored.

    Of several rows of one time the later values count; a row of NULLs alone is none.
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
