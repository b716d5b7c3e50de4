"""The statements of IoTDB's SQL, as the parser gives them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from millrace_core.dialect.iotdb.expressions import Constant, Expression
from millrace_core.dialect.iotdb.paths import Node, Pattern
from millrace_core.dialect.iotdb.times import Time
from millrace_core.errors import Position

# -- databases and series ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CreateDatabase:
    path: Pattern


@dataclass(frozen=True, slots=True)
class DeleteDatabase:
    patterns: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class NewSeries:
    """``type``: IoTDB's, in upper case."""

    measurement: str
    type: str
    position: Position


@dataclass(frozen=True, slots=True)
class CreateTimeseries:
    """Series of one device. ``aligned``: whether the statement said so; kept and shown, without
    other effect."""

    device: Pattern
    series: tuple[NewSeries, ...]
    aligned: bool = False


@dataclass(frozen=True, slots=True)
class DeleteTimeseries:
    patterns: tuple[Pattern, ...]


Listed = Literal["databases", "devices", "timeseries"]


@dataclass(frozen=True, slots=True)
class Show:
    """``pattern`` None: all. ``limit`` None: all from ``offset`` on."""

    what: Listed
    pattern: Pattern | None = None
    limit: int | None = None
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Count:
    what: Listed
    pattern: Pattern | None = None


# -- rows ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class InsertRow:
    """``time`` None: now. ``values`` are in the order of the measurements."""

    time: Time | None
    values: tuple[Constant, ...]
    position: Position


@dataclass(frozen=True, slots=True)
class Insert:
    device: Pattern
    measurements: tuple[str, ...]
    rows: tuple[InsertRow, ...]
    aligned: bool = False


@dataclass(frozen=True, slots=True)
class Delete:
    """Deletes values of the series at the times that ``where`` selects (None: all)."""

    patterns: tuple[Pattern, ...]
    where: Expression | None


# -- SELECT --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Item:
    """``text``: the item as written; it names a result that has no other name."""

    expression: Expression
    alias: str | None
    text: str


@dataclass(frozen=True, slots=True)
class Target:
    """One item of INTO. ``measurements``: those of the device ``path``; None: ``path`` is a whole path.
    Unquoted nodes may be ``::`` or contain ``${i}``."""

    path: Pattern
    measurements: tuple[Node, ...] | None
    aligned: bool = False


@dataclass(frozen=True, slots=True)
class GroupBy:
    """``start``, ``end`` None: a continuous query sets them. ``interval`` None: no groups of time.
    ``step``: the interval, if not given. ``levels``: the nodes by which series are merged (root is 0)."""

    position: Position
    start: Time | None = None
    end: Time | None = None
    interval: int | None = None
    step: int | None = None
    levels: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Fill:
    """``value``: only for the mode ``value``."""

    mode: Literal["previous", "linear", "value"]
    value: Constant | None = None


@dataclass(frozen=True, slots=True)
class Select:
    position: Position
    items: tuple[Item, ...]
    sources: tuple[Pattern, ...]
    into: tuple[Target, ...] = ()
    where: Expression | None = None
    group: GroupBy | None = None
    having: Expression | None = None
    fill: Fill | None = None
    by_time: bool = False
    """Whether ORDER BY TIME was written."""
    descending: bool = False
    limit: int | None = None
    offset: int = 0
    by_device: bool = False
    last: bool = False
    """LAST: the newest value of each series, in a row of its own."""
    by_series: bool = False
    """ORDER BY TIMESERIES, which only LAST has."""


# -- triggers and continuous queries -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CreateTrigger:
    """``class_name``: ``package.module:Class``. ``attributes``: in the order given, each name once.
    ``sha256``: the hash of the file that ``uri`` names, if it is not below the trigger folder."""

    name: str
    stateful: bool
    before: bool
    pattern: Pattern
    class_name: str
    position: Position
    uri: str | None = None
    attributes: tuple[tuple[str, str], ...] = ()

    @property
    def sha256(self) -> str | None:
        return dict(self.attributes).get("sha256")


@dataclass(frozen=True, slots=True)
class DropTrigger:
    name: str
    position: Position


@dataclass(frozen=True, slots=True)
class ShowTriggers:
    pass


@dataclass(frozen=True, slots=True)
class CreateCq:
    """All lengths are milliseconds: a run at ``e`` covers [e - start, e - end). ``text``: the whole statement
    as it was sent."""

    name: str
    every: int
    boundary: Time
    start: int
    end: int
    discard: bool
    select: Select
    text: str
    position: Position


@dataclass(frozen=True, slots=True)
class DropCq:
    name: str
    position: Position


@dataclass(frozen=True, slots=True)
class ShowCqs:
    pass


@dataclass(frozen=True, slots=True)
class DiagnoseCq:
    """Millrace's own, like DIAGNOSE STREAM: what a continuous query does, and why."""

    name: str
    position: Position


@dataclass(frozen=True, slots=True)
class VerifyCq:
    """Millrace's own, like VERIFY STREAM: compares what a continuous query has written at ``first`` to
    ``last`` with what its runs give now. ``limit`` None: the usual number of differences."""

    name: str
    position: Position
    first: Time
    last: Time
    limit: int | None = None


Statement = (
    CreateDatabase | DeleteDatabase | CreateTimeseries | DeleteTimeseries | Show | Count | Insert | Delete
    | Select | CreateTrigger | DropTrigger | ShowTriggers | CreateCq | DropCq | ShowCqs
    | DiagnoseCq | VerifyCq
)  # fmt: skip
