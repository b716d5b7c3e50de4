"""Rows of one device as a trigger sees them: an array for each measurement."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

LONGEST_PATH = 4096


class Columns(dict[str, "Column"]):
    """The columns of one tablet, cut from the frame's columns only when they are asked for: a class seldom
    needs all of them. ``known``: by measurement, the columns that have a value in these rows."""

    __slots__ = ("_rows",)

    def __init__(self, known: Mapping[str, Column], rows: slice) -> None:
        super().__init__(known)
        self._rows = rows

    def __getitem__(self, measurement: str) -> Column:
        whole = super().__getitem__(measurement)
        return Column(whole.type, whole.values[self._rows], whole.present[self._rows])

    def items(self) -> Any:
        return [(name, self[name]) for name in self]


class Column(NamedTuple):
    """``type``: IoTDB's. ``values``: bool, int32, int64 (TIMESTAMP: milliseconds), float32, float64, or
    objects (str) for text. A NULL is 0, NaN or None there, and False in ``present``."""

    type: str
    values: npt.NDArray[Any]
    present: npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Write:
    """Values that a trigger has written to one series. ``times``: milliseconds since the epoch."""

    path: str
    times: list[int]
    values: list[Any]


class Tablet:
    """Rows that a request writes to ``device``, with those of its measurements that match the trigger's
    pattern. The rows of one request may come as one tablet or as several: a trigger must not depend on which.

    ``times``: int64[rows], milliseconds since the epoch. All arrays are read-only.
    """

    __slots__ = ("_columns", "device", "times", "writes")

    def __init__(self, device: str, times: npt.NDArray[np.int64], columns: Mapping[str, Column]) -> None:
        self.device, self.times, self._columns = device, times, columns
        self.writes: list[Write] = []
        """What was passed to :meth:`write`."""

    def __len__(self) -> int:
        return len(self.times)

    @property
    def measurements(self) -> tuple[str, ...]:
        return tuple(self._columns)

    def type(self, measurement: str) -> str:
        """IoTDB's type: BOOLEAN, INT32, INT64, FLOAT, DOUBLE, TEXT, STRING or TIMESTAMP."""
        return self._columns[measurement].type

    def values(self, measurement: str) -> npt.NDArray[Any]:
        """The values, row by row; see :meth:`present` for what is NULL."""
        return self._columns[measurement].values

    def present(self, measurement: str) -> npt.NDArray[np.bool_]:
        """Whether each row has a value for the measurement."""
        return self._columns[measurement].present

    def rows(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Row by row: the time, and the values that are not NULL. Arrays are faster."""
        lists = [(name, one.values.tolist(), one.present.tolist()) for name, one in self._columns.items()]
        for number, time in enumerate(self.times.tolist()):
            yield time, {name: values[number] for name, values, present in lists if present[number]}

    def write(self, path: str, times: Any, values: Any) -> None:
        """Write values to a series: ``path`` is its full path; ``times`` (milliseconds) and ``values`` are
        one each, or equally many. They are stored once ``fire`` has succeeded, like an INSERT of the
        trigger's owner: a missing series is created, and other triggers fire.

        :raises ValueError: for times that are not integers, or not as many as the values.
        """
        if not isinstance(path, str) or not 0 < len(path) <= LONGEST_PATH:
            raise ValueError(f"{path!r:.64} is not the path of a series")
        some, cells = _listed(times), _listed(values)
        if len(some) != len(cells):
            raise ValueError(f"{path}: there are {len(some)} times, but {len(cells)} values")
        try:
            self.writes.append(Write(path, [operator.index(time) for time in some], cells))
        except TypeError:
            raise ValueError(f"{path}: times must be integers, milliseconds since the epoch") from None


def _listed(given: Any) -> list[Any]:
    """One value, or several, as Python has them."""
    if isinstance(given, np.ndarray | np.generic):
        given = given.tolist()
    if isinstance(given, Sequence) and not isinstance(given, str | bytes):
        return [one.item() if isinstance(one, np.generic) else one for one in given]
    return [given]
