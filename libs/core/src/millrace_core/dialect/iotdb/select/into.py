"""SELECT … INTO: which series the results go to, and the rows that are written there (S6).

A target is ``device(measurement, …)`` or a whole path. ``${i}`` stands for node ``i`` of the source's path
(root is 0). ``::`` as the last node of a device stands for the source's nodes from that position on; ``::``
as a measurement stands for the source's measurement. If the SELECT contains no patterns, targets belong to
the items (and paths of FROM) as written, whether or not the series exist yet; otherwise they belong to the
results that were found.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from millrace_core.dialect.iotdb import expressions as e
from millrace_core.dialect.iotdb.codes import IotdbError, Status, semantic
from millrace_core.dialect.iotdb.paths import Node, read_path, write_path
from millrace_core.dialect.iotdb.schema import Schema, check_measurement
from millrace_core.dialect.iotdb.select.assemble import Result
from millrace_core.dialect.iotdb.select.bind import Bound, is_aggregated
from millrace_core.dialect.iotdb.select.lower import Query
from millrace_core.dialect.iotdb.statements import Select, Target
from millrace_core.dialect.iotdb.values import WIDER
from millrace_core.errors import Position

_REST = Node("::")
_INDEX = re.compile(r"\$\{(\d+)\}")


@dataclass(frozen=True, slots=True)
class Goal:
    """The series that a column of the answer goes to. ``source``: under ALIGN BY DEVICE, the device that the
    rows come from; ``type``: that of the values."""

    column: int
    source: str | None
    device: tuple[str, ...]
    measurement: str
    type: str
    aligned: bool

    @property
    def path(self) -> str:
        return write_path((*self.device, self.measurement))


@dataclass(slots=True)
class DeviceRows:
    """What goes to one device: values by measurement, as many as there are times (milliseconds); ``types``:
    those of series that are created for the values."""

    device: tuple[str, ...]
    aligned: bool
    times: list[int]
    columns: dict[str, list[object]] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)


# -- targets as they are written -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Place:
    """One item of INTO, taken apart."""

    device: tuple[Node, ...]
    measurements: tuple[Node, ...]
    aligned: bool
    position: Position | None

    @property
    def varies(self) -> bool:
        """Whether the device depends on the source."""
        return any(map(_varies, self.device))

    @property
    def for_all(self) -> bool:
        """Whether its only measurement stands for all measurements."""
        return len(self.measurements) == 1 and _varies(self.measurements[0])


def _varies(node: Node) -> bool:
    return node == _REST or (not node.quoted and _INDEX.search(node.text) is not None)


def _places(targets: Sequence[Target]) -> list[_Place]:
    """:raises IotdbError: SEMANTIC_ERROR for an impossible target."""
    found = []
    for one in targets:
        nodes = one.path.nodes
        device, measurements = (
            (nodes[:-1], nodes[-1:]) if one.measurements is None else (nodes, one.measurements)
        )
        if _REST in device[:-1]:
            raise semantic(f"INTO {one.path}: :: must be the last node of a device", one.path.position)
        if len(device) < 2 and device[-1:] != (_REST,):
            raise semantic(f"INTO {one.path}: a device must have at least two nodes", one.path.position)
        found.append(_Place(device, measurements, one.aligned, one.path.position))
    return found


def check(select: Select) -> None:
    """Check what can be said about INTO before the series are known.

    :raises IotdbError: SEMANTIC_ERROR for what the rules of INTO refuse.
    """
    places = _places(select.into)
    _check_placeholders(select, places)
    width = _width(select)
    if not select.by_device:
        if width is not None and not _serves_all(places):
            _paired(sum(len(one.measurements) for one in places), width, "columns", select)
        return
    devices = _devices(select)
    if devices is not None and not _serves_devices(places):
        _paired(len(places), devices, "devices", select)
    for one in places:
        if width is not None and not one.for_all:
            _paired(len(one.measurements), width, "columns", select)


def _check_placeholders(select: Select, places: Sequence[_Place]) -> None:
    where = select.into[0].path.position
    varying = any(one.varies for one in places)
    if varying and not all(one.varies for one in places):
        raise semantic("INTO: either all devices must have placeholders, or none", where)
    measured = any(map(_varies, (node for one in places for node in one.measurements)))
    if not varying and not measured:
        return
    if is_aggregated(select):
        if measured:
            raise semantic("INTO: measurements of aggregates cannot have placeholders", where)
        if not select.by_device:
            raise semantic("INTO: placeholders with aggregates need ALIGN BY DEVICE", where)
    elif measured or not select.by_device:
        for item in select.items:
            if not isinstance(item.expression, e.SeriesRef):
                raise semantic(f"INTO: placeholders stand for series, but {item.text} is not a series", where)


def _paired(targets: int, sources: int, what: str, select: Select) -> None:
    if targets != sources:
        raise semantic(
            f"INTO: {targets} targets are named for {sources} {what}; there must be one for each",
            select.into[0].path.position,
        )


def _serves_all(places: Sequence[_Place]) -> bool:
    return len(places) == 1 and places[0].varies and places[0].for_all


def _serves_devices(places: Sequence[_Place]) -> bool:
    return len(places) == 1 and places[0].varies


def _wild_items(select: Select) -> bool:
    return any(
        isinstance(node, e.SeriesRef) and node.path.wild
        for item in select.items
        for node in e.walk(item.expression)
    )


def _width(select: Select) -> int | None:
    """The number of columns, if it does not depend on which series exist; None: it does."""
    if _wild_items(select) or (select.group is not None and select.group.levels):
        return None
    if select.by_device:
        return len(select.items)
    if any(source.wild for source in select.sources):
        return None
    return len(select.items) * len(select.sources)


def _devices(select: Select) -> int | None:
    """The number of devices, likewise."""
    if any(source.wild for source in select.sources):
        return None
    return len({str(source) for source in select.sources})


# -- targets of the series that there are --------------------------------------------------------------------


def goals(query: Query, schema: Schema) -> list[Goal]:
    """Where each column goes.

    :raises IotdbError: SEMANTIC_ERROR for what the rules of INTO refuse, see :func:`check`, or if two columns
        go to one series.
    """
    check(query.select)
    find = _of_devices(query, schema) if query.select.by_device else _of_columns(query)
    found, taken = [], set()
    for goal in find:
        if goal.path in taken:
            raise semantic(
                f"INTO: several columns would be written to {goal.path}", query.select.into[0].path.position
            )
        taken.add(goal.path)
        check_measurement(goal.measurement, query.select.into[0].path.position)
        found.append(goal)
    return found


def check_types(goals: Sequence[Goal], schema: Schema) -> None:
    """:raises IotdbError: METADATA_ERROR if a series exists and its type is too narrow for the values."""
    for goal in goals:
        device = schema.device(goal.device)
        series = device.find(goal.measurement) if device is not None else None
        if series is not None and series.type not in WIDER[goal.type]:
            raise IotdbError(
                Status.METADATA_ERROR, f"{goal.path} is {series.type}: values of type {goal.type} do not fit"
            )


def _of_columns(query: Query) -> Iterator[Goal]:
    select, places = query.select, _places(query.select.into)
    each = [(one, node) for one in places for node in one.measurements]
    if not query.columns:
        return
    width = _width(select)
    if not _serves_all(places):
        _paired(len(each), len(query.columns) if width is None else width, "columns", select)
    for number, column in enumerate(query.columns):
        slot = 0 if _serves_all(places) else number if width is None else column.slot
        place, node = each[slot]
        yield _goal(number, column.type, column.bound[0], None, place, node)


def _of_devices(query: Query, schema: Schema) -> Iterator[Goal]:
    select, places = query.select, _places(query.select.into)
    order = _order(query, schema)
    fixed = _devices(select)
    if not _serves_devices(places) and order:
        _paired(len(places), len(order) if fixed is None else fixed, "devices", select)
    width = _width(select)
    columns = [{one.device.name: one for one in column.bound} for column in query.columns]
    for number, name in order:
        place = places[0 if _serves_devices(places) else number]
        if not place.for_all:
            _paired(
                len(place.measurements), len(query.columns) if width is None else width, "columns", select
            )
        for index, column in enumerate(query.columns):
            bound = columns[index].get(name)
            if bound is not None:
                slot = 0 if place.for_all else index if width is None else column.slot
                yield _goal(index, column.type, bound, name, place, place.measurements[slot])


def _order(query: Query, schema: Schema) -> list[tuple[int, str]]:
    """The devices with results, each with the number of its target: in the order of FROM, then by path."""
    sources = list({str(source): source for source in query.select.sources}.values())
    fixed = _devices(query.select) is not None
    shown = set(query.devices)
    found: dict[str, int] = {}
    for number, source in enumerate(sources):
        for device in schema.devices(source):
            if device.name in shown and device.name not in found:
                found[device.name] = number if fixed else len(found)
    return [(number, name) for name, number in found.items()]


def _goal(
    column: int, type_: str, bound: Bound, source: str | None, place: _Place, measurement: Node
) -> Goal:
    device = read_path(bound.device.name)
    path = device if bound.measurement is None else (*device, bound.measurement)
    # under ALIGN BY DEVICE, placeholders in a device refer to the source device
    meant = device if source is not None else path
    nodes: list[str] = []
    for level, node in enumerate(place.device):
        nodes += device[level:] if node == _REST else [_filled(node, meant, place)]
    if len(nodes) < 2:
        raise semantic(f"INTO: {write_path(nodes)} is not a device", place.position)
    name = path[-1] if measurement == _REST else _filled(measurement, path, place)
    return Goal(column, source, tuple(nodes), name, type_, place.aligned)


def _filled(node: Node, source: Sequence[str], place: _Place) -> str:
    if node.quoted:
        return node.text

    def named(found: re.Match[str]) -> str:
        index = int(found[1][:9])
        if index >= len(source):
            raise semantic(
                f"INTO: {found[0]} is not a node of {write_path(source)}, which has {len(source)} nodes",
                place.position,
            )
        return source[index]

    return _INDEX.sub(named, node.text)


# -- rows ----------------------------------------------------------------------------------------------------


def written(result: Result, goals: Sequence[Goal]) -> list[DeviceRows]:
    """The rows of each device. Results without times are written at 0. A NULL stays in place and
    writes nothing."""
    times = result.times if result.times is not None else [0] * result.rows
    places: dict[str | None, list[int]] = {None: list(range(result.rows))}
    for number, name in enumerate(result.devices or ()):
        places.setdefault(name, []).append(number)
    found: dict[tuple[str | None, tuple[str, ...]], DeviceRows] = {}
    for goal in goals:
        rows = places.get(goal.source, [])
        one = found.get((goal.source, goal.device))
        if one is None:
            at = [times[row] for row in rows]
            one = found[goal.source, goal.device] = DeviceRows(goal.device, goal.aligned, at)
        values = result.values[goal.column]
        one.columns[goal.measurement] = [values[row] for row in rows]
        one.types[goal.measurement] = goal.type
    return list(found.values())
