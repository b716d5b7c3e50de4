"""Lowers a SELECT to queries in the planner's SQL: one for each database, condition and set of columns.

A query returns long rows, each of one device; :mod:`assemble` turns them into the answer's columns. The
planner calculates the aggregates, device by device and group by group.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from millrace_core.dialect.iotdb import expressions as e
from millrace_core.dialect.iotdb.codes import semantic, unsupported
from millrace_core.dialect.iotdb.paths import Pattern, read_path, write_node
from millrace_core.dialect.iotdb.schema import TABLE, TAG, TIME, Schema, text_regex
from millrace_core.dialect.iotdb.select.aggregates import AGGREGATES
from millrace_core.dialect.iotdb.select.bind import (
    Bound,
    BoundColumn,
    Formula,
    bind_condition,
    check_functions,
    devices_of,
    expand,
    is_aggregated,
)
from millrace_core.dialect.iotdb.select.joined import Joined, join, time_only
from millrace_core.dialect.iotdb.select.last import as_aggregates
from millrace_core.dialect.iotdb.select.sql import Missing, render
from millrace_core.dialect.iotdb.statements import GroupBy, Select
from millrace_core.dialect.iotdb.times import TimeContext, resolve
from millrace_core.language.lexer import quote, quote_name
from millrace_core.model.device import Device, Series

NAMED_DEVICES = 500
"""The most devices that a query lists by name; more are found by their pattern."""
MOST_GROUPS = 1_000_000
MOST_ROWS = 2**31 - 1
"""The most rows that a LIMIT can name."""
LEAST_GROUP = 10
"""Milliseconds: the planner's shortest INTERVAL. Shorter groups are made here from raw rows."""


@dataclass(frozen=True, slots=True)
class TimeGroups:
    """Groups of time: ``[start, end)`` in steps; the last group is cut off at the end. Milliseconds."""

    start: int
    end: int
    interval: int
    step: int

    def starts(self) -> range:
        return range(self.start, self.end, self.step)

    @property
    def fine(self) -> bool:
        """Whether its groups are too short for the planner's windows."""
        return max(self.interval, self.step) < LEAST_GROUP


@dataclass(frozen=True, slots=True)
class Fetch:
    """A query. Its rows hold the device's path, the time (of a row, or of a group's start; none without
    groups), and the values of ``parts``, which are SQL texts. Rows of other devices may come, too."""

    db: str
    sql: str
    devices: frozenset[str]
    parts: tuple[str, ...]
    timed: bool


Having = dict[str, list[tuple[str, Formula]]]
"""HAVING for each device, or for the devices that a level merges: (device, condition over it). Without ALIGN
BY DEVICE all of them must hold. Empty: no device has the series of the condition."""


@dataclass(frozen=True, slots=True)
class Query:
    """What is to be fetched, and what the answer is made of. ``span``: the range that a continuous query's
    run covers. ``having``: see :data:`Having`; None: there is no HAVING. ``joined``: WHERE, if it is
    evaluated over the devices together. ``raw``: whether raw rows are fetched, whatever is made of them."""

    select: Select
    columns: tuple[BoundColumn, ...]
    fetches: tuple[Fetch, ...]
    aggregated: bool
    devices: tuple[str, ...]
    grid: TimeGroups | None
    span: tuple[int, int] | None
    having: Having | None
    joined: Joined | None = None
    raw: bool = False


def lower(
    select: Select, schema: Schema, session: TimeContext, *, span: tuple[int, int] | None = None,
    most: int | None = None,
) -> Query:  # fmt: skip
    """``span``: the times [first, last) that a continuous query's run covers. ``most``: at most one row more
    than this is needed.

    :raises IotdbError: SEMANTIC_ERROR for what makes no sense, UNSUPPORTED_OPERATION for what is not
        supported yet.
    """
    if select.last:
        select = as_aggregates(select)
    check_functions(select)
    aggregated = is_aggregated(select)
    _check_clauses(select, aggregated)
    aligned = devices_of(select, schema) if select.by_device else None
    columns = expand(select, schema, session, aligned)
    if select.group is not None and select.group.levels:
        columns = _merged(columns, select.group)
    devices = {bound.device.name: bound.device for column in columns for bound in column.bound}
    having = _having(select, devices, session)
    grid = _grid(select.group, span, session)
    joined = join(select, schema, session, devices)
    raw = joined is not None or not aggregated or (grid is not None and grid.fine)
    fetching = _Fetches(select, schema, session, aggregated, raw, grid, span, most, joined)
    fetches = fetching.make(columns, devices if joined is None else devices | dict(joined.devices), having)
    ordered = sorted(devices) if aligned is None else [device.name for device in aligned]
    shown = tuple([name for name in ordered if name in devices])
    return Query(select, tuple(columns), fetches, aggregated, shown, grid, span, having, joined, raw)


def _check_clauses(select: Select, aggregated: bool) -> None:
    group = select.group
    if group is not None and not aggregated:
        raise semantic("GROUP BY needs aggregates", group.position)
    if select.having is not None and not aggregated:
        raise semantic("HAVING needs aggregates", select.having.position)
    if group is not None and group.levels and select.by_device:
        raise semantic("GROUP BY LEVEL and ALIGN BY DEVICE cannot be used together", group.position)
    for node in e.walk(select.having) if select.having is not None else ():
        if isinstance(node, e.TimeColumn):
            raise semantic("HAVING allows conditions on aggregates, not on time", node.position)


def _grid(group: GroupBy | None, span: tuple[int, int] | None, session: TimeContext) -> TimeGroups | None:
    if group is None or group.interval is None:
        return None
    if group.start is not None and group.end is not None:
        first, last = resolve(group.start, session), resolve(group.end, session)
        if first >= last:
            raise semantic("GROUP BY: the range must end after its start", group.position)
    elif span is not None:
        first, last = span
    else:
        raise semantic("GROUP BY needs a time range here: GROUP BY([start, end), interval)", group.position)
    made = TimeGroups(first, last, group.interval, group.step or group.interval)
    if len(made.starts()) > MOST_GROUPS:
        raise semantic(f"GROUP BY would make more than {MOST_GROUPS} groups", group.position)
    return made


def _merged(columns: Sequence[BoundColumn], group: GroupBy) -> list[BoundColumn]:
    """The results of series with the same nodes at the levels, merged into one."""
    found: dict[tuple[str, str], list[BoundColumn]] = {}
    for column in columns:
        (bound,) = column.bound
        if bound.measurement is None or bound.formula is None:
            raise unsupported(
                f"{column.name}: GROUP BY LEVEL supports only aggregates of single series", group.position
            )
        name = f"{_at_levels(bound.device.name, group.levels)}.{write_node(bound.measurement)}"
        found.setdefault((bound.formula.calls[0].name, name), []).append(column)
    made = []
    for (function, name), same in found.items():
        types = {column.type for column in same}
        if len(types) > 1:
            raise semantic(
                f"{function}({name}) has several types: {', '.join(sorted(types))}", group.position
            )
        merged = tuple(one.bound[0] for one in same)
        made.append(BoundColumn(f"{function}({name})", types.pop(), merged, same[0].slot))
    return made


def _at_levels(device: str, levels: Sequence[int]) -> str:
    """The common name of the devices that have the same nodes at these levels; other nodes become ``*``."""
    root, *nodes = read_path(device)
    return ".".join((root, *(write_node(n) if i in levels else "*" for i, n in enumerate(nodes, 1))))


def _having(select: Select, devices: dict[str, Device], session: TimeContext) -> Having | None:
    if select.having is None:
        return None
    levels = select.group.levels if select.group is not None else ()
    found: Having = {}
    known: dict[tuple[Series, ...], Formula | None] = {}
    for name, device in devices.items():
        key = _at_levels(name, levels) if levels else name
        judged = found.setdefault(key, [])
        if device.series not in known:
            known[device.series] = bind_condition(select.having, device, session)
        if (formula := known[device.series]) is not None:
            judged.append((name, formula))
    return found


def texts_of(bound: Bound) -> list[str]:
    """The SQL columns that a result is made of."""
    return [bound.sql.text] if bound.sql is not None else formula_texts(bound.formula)


def formula_texts(formula: Formula | None) -> list[str]:
    calls = formula.calls if formula is not None else ()
    return [text for call in calls for text in AGGREGATES[call.name].columns(call.argument.text)]


@dataclass(frozen=True, slots=True)
class _Fetches:
    select: Select
    schema: Schema
    session: TimeContext
    aggregated: bool
    raw: bool
    grid: TimeGroups | None
    span: tuple[int, int] | None
    most: int | None
    joined: Joined | None

    def make(
        self, columns: Iterable[BoundColumn], devices: dict[str, Device], having: Having | None
    ) -> tuple[Fetch, ...]:
        """One query for each database, set of columns and condition."""
        # equal meanings are found by identity, because devices share the objects
        needed: dict[str, list[int]] = {name: [] for name in devices}
        texts: dict[int, list[str]] = {}
        for column in columns:
            for bound in column.bound:
                meaning = bound.meaning
                if id(meaning) not in texts:
                    texts[id(meaning)] = self._texts(bound.formula, bound)
                needed[bound.device.name].append(id(meaning))
        for judged in (having or {}).values():
            for name, formula in judged:
                if id(formula) not in texts:
                    texts[id(formula)] = self._texts(formula)
                needed[name].append(id(formula))
        parts: dict[tuple[int, ...], tuple[str, ...]] = {}
        conditions: dict[tuple[Series, ...], str | None] = {}
        alike: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
        for name, meanings in needed.items():
            device, key = devices[name], tuple(meanings)
            if (condition := self._condition_of(devices, device, conditions)) is None:
                continue
            if key not in parts:
                parts[key] = tuple(dict.fromkeys(text for one in key for text in texts[one]))
            wanted = parts[key]
            if self.joined is not None:
                wanted = tuple(dict.fromkeys((*wanted, *self.joined.columns(name))))
            alike.setdefault((device.db, condition, wanted), []).append(name)
        return tuple(
            Fetch(
                db, self._sql(db, condition, texts, names), frozenset(names), texts,
                self.raw or self.grid is not None,
            )
            for (db, condition, texts), names in alike.items()
        )  # fmt: skip

    def _texts(self, formula: Formula | None, bound: Bound | None = None) -> list[str]:
        """The columns to fetch for a result; if rows are evaluated here, the arguments of its aggregates."""
        if self.raw and formula is not None:
            return [call.argument.text for call in formula.calls]
        return texts_of(bound) if bound is not None else formula_texts(formula)

    def _condition_of(
        self, devices: dict[str, Device], device: Device, known: dict[tuple[Series, ...], str | None]
    ) -> str | None:
        """WHERE for one device, in SQL; None: no row meets it, because the device lacks one of its series.
        ``known``: the conditions so far, by the devices' series; used where WHERE names only measurements."""
        if self.select.where is None:
            return ""
        if (self.select.by_device or self.joined is not None) and device.series in known:
            return known[device.series]
        try:
            found: str | None = self._condition(devices, device)
        except Missing:
            found = None
        known[device.series] = found
        return found

    def _condition(self, devices: dict[str, Device], device: Device) -> str:
        """WHERE for one device, in SQL."""
        where = self.select.where
        if where is None:
            return ""
        if self.joined is not None:
            return time_only(where, self.session)
        found = render(where, lambda node: self._meant(node, device), self.session)
        if found.type != "BOOLEAN":
            raise semantic("WHERE needs a condition", where.position)
        return found.text

    def _meant(self, node: e.SeriesRef, device: Device) -> Series | None:
        if node.path.wild:
            raise semantic(f"{node.path}: series in a condition cannot have wildcards", node.position)
        if self.select.by_device:
            if len(node.path.nodes) != 1:
                raise semantic(f"{node.path}: with ALIGN BY DEVICE, name only the measurement", node.position)
            return device.find(node.path.nodes[0].text)
        found = {
            (one.name, series)
            for source in self.select.sources
            for one, series in self.schema.series(source.below(node.path))
        }
        return next((series for _, series in found), None)

    # -- SQL -------------------------------------------------------------------------------------------------

    def _sql(self, db: str, condition: str, texts: Sequence[str], names: Sequence[str]) -> str:
        time = quote_name(TIME)
        table = names[0] if len(names) == 1 else TABLE
        conditions = [*self._range(), condition, self._which(db, names)]
        selected = list(texts)
        tail = ""
        if self.raw:
            selected = [time, *texts]
            conditions.append("(" + " OR ".join(f"{text} IS NOT NULL" for text in texts) + ")")
            tail = f" ORDER BY {time}{' DESC' if self.select.descending else ''}{self._limit(len(names))}"
        elif self.grid is not None:
            selected = ["_wstart", *texts]
            tail = f" PARTITION BY tbname {self._window(self.grid)}"
        else:
            tail = " PARTITION BY tbname"
        where = " AND ".join(text for text in conditions if text)
        return (
            # names are quoted; the rest is made from parsed expressions
            f"SELECT {', '.join(('tbname', *selected))} FROM {quote_name(db)}.{quote_name(table)}"  # noqa: S608
            f"{' WHERE ' + where if where else ''}{tail}"
        )

    def _range(self) -> list[str]:
        first, last = self.span or (None, None)
        if self.grid is not None:
            first, last = self.grid.start, self.grid.end
        if first is None or last is None:
            return []
        time = quote_name(TIME)
        found = [f"{time} >= {first}", f"{time} < {last}"]
        grid = self.grid
        if grid is not None and grid.step > grid.interval:
            found.append(f"(CAST({time} AS BIGINT) - {grid.start}) % {grid.step} < {grid.interval}")
        return found

    def _window(self, grid: TimeGroups) -> str:
        offset = grid.start % grid.step
        if grid.step >= grid.interval:
            return f"INTERVAL({grid.step}a, {offset}a)" if offset else f"INTERVAL({grid.step}a)"
        window = f"INTERVAL({grid.interval}a, {offset}a)" if offset else f"INTERVAL({grid.interval}a)"
        return f"{window} SLIDING({grid.step}a)"

    def _which(self, db: str, names: Sequence[str]) -> str:
        if len(names) == 1:
            return ""
        # a pattern, or no condition, would include devices that whoever asks may not know of
        if len(names) <= NAMED_DEVICES or self.schema.restricted:
            return f"tbname IN ({', '.join(map(quote, names))})"
        table = self.schema.table(db)
        family = self.schema.catalog.family.get((db, TABLE), {}) if table is not None else {}
        if len(family) == len(names):
            return ""
        heads = {self._head(source) for source in self.select.sources}
        if None in heads:
            return ""
        patterns = "|".join(sorted(text_regex(head.nodes).pattern for head in heads if head is not None))
        return f"{quote_name(TAG)} MATCH {quote(f'^(?:{patterns})$')}"

    def _head(self, source: Pattern) -> Pattern | None:
        """The pattern of the devices, if all items are plain measurements; else None."""
        for item in self.select.items:
            for node in e.walk(item.expression):
                if isinstance(node, e.SeriesRef) and (
                    len(node.path.nodes) != 1 or node.path.nodes[0].text == "**"
                ):
                    return None
        return source

    def _limit(self, devices: int) -> str:
        """A LIMIT that covers the wanted times: each device has at most one row at a time."""
        select = self.select
        if select.fill is not None or select.by_device or self.joined is not None or self.aggregated:
            return ""
        wanted = None if select.limit is None else select.limit + select.offset
        if self.most is not None:
            most = self.most + select.offset + 1
            wanted = most if wanted is None else min(wanted, most)
        # the answer itself is cut at the end; this only avoids fetching what is not needed
        return "" if wanted is None or wanted * devices > MOST_ROWS else f" LIMIT {wanted * devices}"
