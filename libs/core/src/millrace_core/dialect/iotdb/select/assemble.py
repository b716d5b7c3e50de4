"""Makes the answer of a SELECT from the rows that its queries returned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from millrace_core.dialect.iotdb import expressions as e
from millrace_core.dialect.iotdb.select import last
from millrace_core.dialect.iotdb.select.aggregates import AGGREGATES, Partial, merged
from millrace_core.dialect.iotdb.select.bind import AggregateCall, Bound, BoundColumn, Formula, calls
from millrace_core.dialect.iotdb.select.evaluate import Evaluation
from millrace_core.dialect.iotdb.select.joined import Joined, RawRows, folded, holding
from millrace_core.dialect.iotdb.select.lower import Fetch, Query, texts_of
from millrace_core.dialect.iotdb.statements import Fill
from millrace_core.dialect.iotdb.values import number_of

AnswerRows = Sequence[Sequence[object]]


@dataclass(frozen=True, slots=True)
class Result:
    """The columns of an answer, with values by column. ``times``: milliseconds; None: rows have no time.
    ``devices``: the device of each row, under ALIGN BY DEVICE."""

    names: tuple[str, ...]
    types: tuple[str, ...]
    values: list[list[object]]
    times: list[int] | None = None
    devices: list[str] | None = None

    @property
    def rows(self) -> int:
        if self.times is not None:
            return len(self.times)
        return len(self.values[0]) if self.values else 0


@dataclass(slots=True)
class _Row:
    device: str | None
    time: int | None
    cells: list[object]


def assemble(query: Query, answers: Sequence[AnswerRows]) -> Result:
    """``answers``: the rows of each query of ``query.fetches``, in the same order."""
    if query.joined is not None:
        answers = _joined(query.joined, query.fetches, answers)
    select = query.select
    if select.last:
        return _last(query, answers)
    rows = _aggregated(query, answers) if query.aggregated else _raw(query, answers)
    if select.fill is not None:
        of_device: dict[str | None, list[_Row]] = {}
        for row in rows:
            of_device.setdefault(row.device, []).append(row)
        for some in of_device.values():
            _fill(some, select.fill, query.columns)
    if select.by_device and select.by_time:
        rows.sort(key=lambda row: row.time or 0, reverse=select.descending)
    elif select.descending and not select.by_device:
        rows.reverse()
    rows = rows[select.offset : None if select.limit is None else select.offset + select.limit]
    timed = not query.aggregated or query.grid is not None or query.span is not None
    return Result(
        tuple(column.name for column in query.columns), tuple(column.type for column in query.columns),
        [[row.cells[i] for row in rows] for i in range(len(query.columns))],
        [row.time or 0 for row in rows] if timed else None,
        [row.device or "" for row in rows] if select.by_device else None,
    )  # fmt: skip


def _last(query: Query, answers: Sequence[AnswerRows]) -> Result:
    fetched = _fetched(query, answers)
    found = [
        fetched.part(one.device.name, None, texts_of(one)) for column in query.columns for one in column.bound
    ]
    select = query.select
    rows = last.texts(query.columns, found)
    if select.by_time:
        rows.sort(key=lambda row: row[0])
    rows = rows[:: -1 if select.descending else 1]
    rows = rows[select.offset : None if select.limit is None else select.offset + select.limit]
    values: list[list[object]] = [[cells[i] for _, cells in rows] for i in range(len(last.NAMES))]
    return Result(last.NAMES, ("TEXT",) * len(last.NAMES), values, [time for time, _ in rows])


def _joined(joined: Joined, fetches: Sequence[Fetch], answers: Sequence[AnswerRows]) -> list[AnswerRows]:
    """The rows at those times at which the condition holds."""
    told = [RawRows(fetch.devices, fetch.parts, rows) for fetch, rows in zip(fetches, answers, strict=True)]
    held = holding(joined, told)
    return [[row for row in rows if row[1] in held] for rows in answers]


# -- raw rows ------------------------------------------------------------------------------------------------


def _raw(query: Query, answers: Sequence[AnswerRows]) -> list[_Row]:
    """The rows in ascending order of time; under ALIGN BY DEVICE ordered by device first."""
    found: dict[tuple[str | None, int], list[object]] = {}
    width = len(query.columns)
    places = _places(query.columns)
    for fetch, rows in zip(query.fetches, answers, strict=True):
        at = {text: i for i, text in enumerate(fetch.parts, 2)}
        of_device = {
            name: [(column, at[text]) for column, text in places.get(name, ())] for name in fetch.devices
        }
        for row in rows:
            device, time = str(row[0]), row[1]
            assert isinstance(time, int)
            for column, part in of_device.get(device, ()):
                if row[part] is not None:
                    key = (device if query.select.by_device else None, time)
                    cells = found.get(key)
                    if cells is None:
                        cells = found[key] = [None] * width
                    cells[column] = row[part]
    ordered = sorted(found, key=lambda key: (key[0] or "", key[1]))
    return [_Row(device, time, found[device, time]) for device, time in ordered]


def _places(columns: Sequence[BoundColumn]) -> dict[str, list[tuple[int, str]]]:
    """Device -> (column, the SQL of its value)."""
    found: dict[str, list[tuple[int, str]]] = {}
    for place, column in enumerate(columns):
        for bound in column.bound:
            found.setdefault(bound.device.name, []).append((place, texts_of(bound)[0]))
    return found


# -- aggregates ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Fetched:
    """(device, group's start) -> the values of its parts, by their SQL."""

    rows: dict[tuple[str, int | None], dict[str, object]]

    def part(self, device: str, start: int | None, texts: Sequence[str]) -> Partial | None:
        row = self.rows.get((device, start))
        return None if row is None else tuple([row.get(text) for text in texts])


def _aggregated(query: Query, answers: Sequence[AnswerRows]) -> list[_Row]:
    starts: Sequence[int | None] = query.grid.starts() if query.grid is not None else (None,)
    fetched = _fetched(query, answers)
    columns = [_of_devices(column, apart=query.select.by_device) for column in query.columns]
    made = []
    for device in query.devices if query.select.by_device else (None,):
        bound = [column.get(device, ()) for column in columns]
        for start in starts:
            if not _having(query, device, start, fetched):
                continue
            cells = [_value(one, start, fetched) for one in bound]
            time = start if start is not None else query.span[0] if query.span is not None else None
            made.append(_Row(device, time, cells))
    return made if query.columns else []


def _of_devices(column: BoundColumn, *, apart: bool) -> dict[str | None, tuple[Bound, ...]]:
    """What a column is made of: for each device, or, if they are not ``apart``, for all devices together."""
    if not apart:
        return {None: column.bound}
    found: dict[str | None, tuple[Bound, ...]] = {}
    for one in column.bound:
        found[one.device.name] = (*found.get(one.device.name, ()), one)
    return found


def _fetched(query: Query, answers: Sequence[AnswerRows]) -> _Fetched:
    if query.raw:
        return _Fetched(_folded(query, answers))
    rows: dict[tuple[str, int | None], dict[str, object]] = {}
    for fetch, answer in zip(query.fetches, answers, strict=True):
        skip = 2 if fetch.timed else 1
        for row in answer:
            start = row[1] if fetch.timed else None
            assert start is None or isinstance(start, int)
            if row[0] in fetch.devices:
                rows[str(row[0]), start] = dict(zip(fetch.parts, row[skip:], strict=True))
    return _Fetched(rows)


def _folded(query: Query, answers: Sequence[AnswerRows]) -> dict[tuple[str, int | None], dict[str, object]]:
    """Aggregates of rows that were filtered here, because the planner has not seen the condition."""
    formulas = [(one.device.name, one.formula) for column in query.columns for one in column.bound]
    formulas += [pair for judged in (query.having or {}).values() for pair in judged]
    each: dict[str, dict[tuple[str, str], AggregateCall]] = {}
    for name, formula in formulas:
        for call in formula.calls if formula is not None else ():
            each.setdefault(name, {})[call.name, call.argument.text] = call
    found: dict[tuple[str, int | None], dict[str, object]] = {}
    for fetch, rows in zip(query.fetches, answers, strict=True):
        mine = {name: list(each.get(name, {}).values()) for name in fetch.devices}
        for device, start, parts in folded(fetch.parts, rows, mine, query.grid):
            found.setdefault((device, start), {}).update(parts)
    return found


def _value(bound: Sequence[Bound], start: int | None, fetched: _Fetched) -> object:
    """The result of one device, or the merged result of several."""
    if not bound:
        return None
    formula = bound[0].formula
    assert formula is not None
    names = [one.device.name for one in bound]
    formulas = [one.formula for one in bound if one.formula is not None]
    results = [
        _call_result(
            [(name, other, number) for name, other in zip(names, formulas, strict=True)], start, fetched
        )
        for number in range(len(formula.calls))
    ]
    return _evaluate(formula, results)


def _call_result(calls_: Sequence[tuple[str, Formula, int]], start: int | None, fetched: _Fetched) -> object:
    parts = []
    for device, formula, number in calls_:
        call = formula.calls[number]
        part = fetched.part(device, start, AGGREGATES[call.name].columns(call.argument.text))
        if part is not None:
            parts.append(part)
    return merged(calls_[0][1].calls[calls_[0][2]].name, parts)


def _having(query: Query, device: str | None, start: int | None, fetched: _Fetched) -> bool:
    if query.having is None:
        return True
    if device is not None:
        return _holds(query.having[device], start, fetched)
    judged = [one for one in query.having.values() if one]
    return bool(judged) and all(_holds(one, start, fetched) for one in judged)


def _holds(judged: Sequence[tuple[str, Formula]], start: int | None, fetched: _Fetched) -> bool:
    """Whether HAVING holds for these devices together."""
    if not judged:
        return False
    formula = judged[0][1]
    results = [
        _call_result([(name, other, number) for name, other in judged], start, fetched)
        for number in range(len(formula.calls))
    ]
    return _evaluate(formula, results) is True


def _evaluate(formula: Formula, results: Sequence[object]) -> object:
    if isinstance(formula.tree, e.Call):
        return results[0]
    known = {id(call): value for call, value in zip(calls(formula.tree), results, strict=True)}
    return Evaluation(known).value(formula.tree)


# -- FILL ----------------------------------------------------------------------------------------------------

_KINDS: dict[str, type] = {"BOOLEAN": bool, "TEXT": str, "STRING": str}
_NUMBERS = ("INT32", "INT64", "FLOAT", "DOUBLE", "TIMESTAMP")


def _constant(value: object, type_: str) -> object:
    """The value that FILL puts into a column of this type; None: the constant does not fit it."""
    if type_ in _NUMBERS:
        return number_of(value, type_)
    return value if type_ in _KINDS and isinstance(value, _KINDS[type_]) else None


def _fill(rows: Sequence[_Row], fill: Fill, columns: Sequence[BoundColumn]) -> None:
    """Fill rows in ascending order of time. PREVIOUS and LINEAR leave a NULL without the needed
    neighbours."""
    for place, column in enumerate(columns):
        if fill.mode == "value":
            value = None if fill.value is None else _constant(fill.value.value, column.type)
            for row in rows:
                row.cells[place] = value if row.cells[place] is None else row.cells[place]
        elif fill.mode == "previous":
            last: object = None
            for row in rows:
                if row.cells[place] is None:
                    row.cells[place] = last
                last = row.cells[place]
        elif column.type in ("INT32", "INT64", "FLOAT", "DOUBLE"):
            _linear(rows, place, whole=column.type.startswith("INT"))


def _linear(rows: Sequence[_Row], place: int, *, whole: bool) -> None:
    known = [i for i, row in enumerate(rows) if row.cells[place] is not None]
    for low, high in pairwise(known):
        a, b = rows[low], rows[high]
        begin, end = a.cells[place], b.cells[place]
        assert isinstance(begin, int | float) and isinstance(end, int | float)
        for row in rows[low + 1 : high]:
            share = ((row.time or 0) - (a.time or 0)) / ((b.time or 0) - (a.time or 0))
            value = begin + (end - begin) * share
            row.cells[place] = int(value) if whole else value
