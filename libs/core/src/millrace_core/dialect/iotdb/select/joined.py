"""WHERE on values when several devices are aligned by time. As in IoTDB, the condition is evaluated over the
values that all devices have at a time; a time at which it does not hold has no row.

A path in the condition means a series below each path of FROM, and all that wildcards match: the condition
must hold for every combination of these. The rows are fetched raw, and filtered and aggregated here: no query
over a single relation of long rows can express this.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Protocol

from millrace_core.dialect.iotdb import expressions as e
from millrace_core.dialect.iotdb.codes import semantic
from millrace_core.dialect.iotdb.schema import Schema
from millrace_core.dialect.iotdb.select.aggregates import AGGREGATES, Partial
from millrace_core.dialect.iotdb.select.bind import AggregateCall
from millrace_core.dialect.iotdb.select.evaluate import Evaluation
from millrace_core.dialect.iotdb.select.sql import Sql, render
from millrace_core.dialect.iotdb.statements import Select
from millrace_core.dialect.iotdb.times import Moment, TimeContext, resolve
from millrace_core.language.lexer import quote_name
from millrace_core.model.device import Device, Series

MOST_CHOICES = 10_000
SeriesPlace = tuple[str, str]
"""(device, column in SQL)."""
_Option = tuple[Device, Series]


@dataclass(frozen=True, slots=True)
class Joined:
    """The condition ``tree``, and for each combination of series where the values of its nodes are (by
    ``id``). ``never``: one of its paths matches no series, so it never holds."""

    tree: e.Expression
    choices: tuple[Mapping[int, SeriesPlace], ...]
    devices: Mapping[str, Device]
    session: TimeContext
    never: bool = False

    def columns(self, device: str) -> list[str]:
        """The columns of a device that the condition needs."""
        places = (place for choice in self.choices for place in choice.values())
        return list(dict.fromkeys(column for name, column in places if name == device))


class TimeRange(Protocol):
    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def interval(self) -> int: ...
    @property
    def step(self) -> int: ...


def join(
    select: Select, schema: Schema, session: TimeContext, selected: Mapping[str, Device]
) -> Joined | None:
    """The condition, if it is one on values over several devices; None: it is not, so a query can express it.

    :raises IotdbError: SEMANTIC_ERROR if it is not a condition, or matches too many series.
    """
    where = select.where
    nodes = [node for node in e.walk(where) if isinstance(node, e.SeriesRef)] if where is not None else []
    if where is None or not nodes or select.by_device:
        return None
    options: dict[e.SeriesRef, list[_Option]] = {
        node: list(_meant(node, select, schema)) for node in dict.fromkeys(nodes)
    }
    devices = {device.name: device for some in options.values() for device, _ in some}
    if len(devices | dict(selected)) < 2 and not any(node.path.wild for node in nodes):
        return None
    count = 1
    for some in options.values():
        count *= len(some)
    if count > MOST_CHOICES:
        raise semantic(
            f"the condition has {count} combinations of series; at most {MOST_CHOICES} are allowed. Use "
            "ALIGN BY DEVICE to evaluate it for each device",
            nodes[0].position,
        )
    choices = []
    for made in product(*options.values()):
        chosen = dict(zip(options, made, strict=True))
        _check(where, {node: series for node, (_, series) in chosen.items()}, session)
        choices.append({id(n): (chosen[n][0].name, quote_name(chosen[n][1].column)) for n in nodes})
    return Joined(where, tuple(choices), devices, session, never=count == 0)


def _meant(node: e.SeriesRef, select: Select, schema: Schema) -> Iterator[_Option]:
    found = {}
    for source in select.sources:
        for device, series in schema.series(source.below(node.path)):
            found[device.name, series.measurement] = device, series
    yield from found.values()


def _check(where: e.Expression, chosen: Mapping[e.SeriesRef, Series], session: TimeContext) -> None:
    if render(where, chosen.get, session).type != "BOOLEAN":
        raise semantic("WHERE needs a condition", where.position)


def time_only(where: e.Expression, session: TimeContext) -> str:
    """The parts of a condition that are about time alone, in SQL, to limit what is fetched; may be empty."""
    if isinstance(where, e.Binary) and where.operator == "and":
        return " AND ".join(filter(None, (time_only(where.left, session), time_only(where.right, session))))
    if any(isinstance(node, e.SeriesRef) for node in e.walk(where)):
        return ""
    found: Sql = render(where, lambda _: None, session)
    return found.text if found.type == "BOOLEAN" else ""


# -- rows ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RawRows:
    """Raw rows: device, time, values of ``parts``. Rows of devices not in ``devices`` do not count."""

    devices: frozenset[str]
    parts: tuple[str, ...]
    rows: Sequence[Sequence[object]]


def holding(joined: Joined, answers: Sequence[RawRows]) -> set[object]:
    """The times at which the condition holds."""
    if joined.never:
        return set()
    wanted = {place for choice in joined.choices for place in choice.values()}
    at: dict[object, dict[SeriesPlace, object]] = {}
    for answer in answers:
        for row in answer.rows:
            device = str(row[0])
            if device in answer.devices:
                values = at.setdefault(row[1], {})
                for part, value in zip(answer.parts, row[2:], strict=True):
                    if (device, part) in wanted and value is not None:
                        values[device, part] = value
    clocks = [id(node) for node in e.walk(joined.tree) if isinstance(node, e.TimeColumn)]

    def literal(value: e.Value) -> object:
        return resolve(value, joined.session) if isinstance(value, Moment) else value

    def holds(time: object, values: Mapping[SeriesPlace, object]) -> bool:
        moment = dict.fromkeys(clocks, time)
        return all(
            Evaluation(moment | {node: values.get(place) for node, place in choice.items()}, literal).value(
                joined.tree
            )
            is True
            for choice in joined.choices
        )

    return {time for time, values in at.items() if holds(time, values)}


def folded(
    parts: Sequence[str],
    rows: Sequence[Sequence[object]],
    calls: Mapping[str, Sequence[AggregateCall]],
    grid: TimeRange | None,
) -> Iterator[tuple[str, int | None, dict[str, object]]]:
    """Aggregates of raw rows: (device, group's start, value of each of the aggregates' columns)."""
    at = {part: place for place, part in enumerate(parts, 2)}
    found: dict[tuple[str, int | None], dict[tuple[str, ...], Partial]] = {}
    for row in rows:
        device, time = str(row[0]), row[1]
        assert isinstance(time, int)
        for call in calls.get(device, ()):
            place = at.get(call.argument.text)
            if place is None or row[place] is None:
                continue
            made = AGGREGATES[call.name]
            columns, part = made.columns(call.argument.text), made.row(row[place], time)
            for start in _starts(time, grid):
                group = found.setdefault((device, start), {})
                known = group.get(columns)
                group[columns] = part if known is None else made.merge(known, part)
    for (device, start), group in found.items():
        values: dict[str, object] = {}
        for columns, part in group.items():
            values.update(zip(columns, part, strict=True))
        yield device, start, values


def _starts(time: int, grid: TimeRange | None) -> Sequence[int | None]:
    """The starts of the groups that a time belongs to."""
    if grid is None:
        return (None,)
    if not grid.start <= time < grid.end:
        return ()
    last = (time - grid.start) // grid.step
    first = max((time - grid.start - grid.interval) // grid.step + 1, 0)
    return [grid.start + number * grid.step for number in range(first, last + 1)]
