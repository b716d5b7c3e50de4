"""What each output table must hold in the end, by DuckDB over the changes of the trigger table. Pure.

Nothing here knows Millrace's windowers: the rows that are left in the end are cut by SQL, in order of time,
as SEMANTICS of the dialect has it. A window counts once T of its group (the newest time ever seen in it, less
the watermark) has closed it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import duckdb
import polars as pl
from tests.chaos.changes import Change
from tests.chaos.streams import Count, Event, EveryRow, Interval, Session, Sliding, State, Stream


class Result(NamedTuple):
    """One row of an output table: its group, start and end of the window, rows and sum of the values."""

    group: str
    ts: int
    upto: int
    n: int
    total: int | None


Stored = dict[tuple[str, int], tuple[int | None, int | None, int | None]]
"""Child and time -> op, v, s."""

_WRITTEN = {
    "child": pl.String, "place": pl.Int64, "ts": pl.Int64, "op": pl.Int64, "v": pl.Int64, "s": pl.Int64,
    "has_op": pl.Boolean, "has_v": pl.Boolean, "has_s": pl.Boolean,
}  # fmt: skip
_REMOVED = {"child": pl.String, "place": pl.Int64, "first": pl.Int64, "last": pl.Int64}

# A row is what its versions since the last delete say, column by column.
_STORED = """
CREATE TEMP TABLE stored AS
SELECT child, ts, last(op ORDER BY place) FILTER (has_op) AS op, last(v ORDER BY place) FILTER (has_v) AS v,
       last(s ORDER BY place) FILTER (has_s) AS s, min(place) AS since
FROM written w
WHERE NOT EXISTS (
  FROM removed r WHERE r.child = w.child AND r.place > w.place AND w.ts BETWEEN r.first AND r.last)
GROUP BY child, ts
"""


FEW = 1_000
"""Changes for which the optimizer takes longer than the queries do without it."""


@cache
def _database() -> duckdb.DuckDBPyConnection:
    """One for all oracles of a process, as it takes 40 ms to make; a cursor has its own temporary tables."""
    return duckdb.connect(":memory:", config={"threads": 1})


class Oracle:
    """The truth about one trigger table. ``site``: the tag of each child; ``value``: the column that results
    sum up."""

    def __init__(self, changes: Sequence[Change], site: Callable[[str], int], value: str = "v") -> None:
        self._db = _database().cursor()
        if len(changes) < FEW:
            self._db.execute("PRAGMA disable_optimizer")
        rows = [_written(one, value) for one in changes if one.row is not None]
        gone = [(one.child, one.place, one.first, one.last) for one in changes if one.row is None]
        children = [(name, site(name)) for name in sorted({one.child for one in changes})]
        self._table("written", _WRITTEN, rows)
        self._table("removed", _REMOVED, gone)
        self._table("children", {"child": pl.String, "site": pl.Int64}, children)
        self._db.execute(_STORED)

    def _table(self, name: str, schema: Mapping[str, Any], rows: Sequence[tuple[object, ...]]) -> None:
        self._db.register("frame", pl.DataFrame(rows, dict(schema), orient="row").to_arrow())
        self._db.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS FROM frame")
        self._db.unregister("frame")

    def close(self) -> None:
        self._db.close()

    def stored(self) -> Stored:
        """The rows that the table itself must have."""
        found = self._db.execute("SELECT child, ts, op, v, s FROM stored").fetchall()
        return {(child, ts): (op, v, s) for child, ts, op, v, s in found}

    def expected(self, stream: Stream, before: Mapping[str, int] | None = None) -> list[Result]:
        """The results that must be there, in order. ``before``: of a stream that was made later, child -> the
        place before which rows were there for certain (none: all rows were written since).
        """
        group = GROUPS[stream.by]
        kept = "" if stream.least is None else f"WHERE v >= {stream.least}"
        for name, select in {
            "all_rows": f"SELECT {group} AS grp, child, ts, v, s, since "
            "FROM stored JOIN children USING (child)",
            "judged": f"FROM all_rows {kept}",
            "reach": f"SELECT {group} AS grp, max(ts) - {stream.watermark} AS t "
            f"FROM written JOIN children USING (child) {kept} GROUP BY grp",
            "windows": _windows(stream),
        }.items():
            self._db.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS {select}")
        if isinstance(stream.trigger, Interval) and stream.fires_empty:
            self._add_empty(stream.trigger, before)
        # a WHERE of the older dialect says which rows there are; PRE_FILTER only which of them trigger
        results = _RESULTS.format(rows="judged" if stream.older else "all_rows")
        found = [Result(*row) for row in self._db.execute(results).fetchall()]
        found = [one._replace(upto=one.upto + stream.after) for one in found]
        if isinstance(stream.trigger, Interval) and stream.fill is not None:
            return list(_with_filled(found, stream.trigger, stream.fill))
        return found

    def _add_empty(self, trigger: Interval, before: Mapping[str, int] | None) -> None:
        """Windows without rows fire too, from the first row on that the stream has judged. Of rows that were
        deleted meanwhile nobody can tell whether they were judged."""
        self._table("made", {"child": pl.String, "until": pl.Int64}, list((before or {}).items()))
        first = _FIRST_LIVE if before is None else _FIRST_MADE
        self._db.execute(f"CREATE OR REPLACE TEMP TABLE first_row AS {first}")
        length, slide, _ = trigger
        self._db.execute(
            f"""INSERT INTO windows
            SELECT grp, start, start + {length}, start, start + {length} - 1
            FROM (SELECT f.grp, unnest(generate_series(f.ts - f.ts % {slide}, t - {length}, {slide})) AS start
                  FROM first_row f JOIN reach USING (grp)) g
            WHERE NOT EXISTS (FROM windows w WHERE w.grp = g.grp AND w.start = g.start)"""
        )


GROUPS = {
    "tbname": "child", "site": "cast(site AS VARCHAR)", "": "''",
    "half": "CASE WHEN v >= 50 THEN 'high' WHEN v < 50 THEN 'low' ELSE '' END",
}  # fmt: skip


def _with_filled(found: Sequence[Result], trigger: Interval, value: int) -> Iterator[Result]:
    """The results, and what FILL says of each window without rows between two of a group."""
    before: Result | None = None
    for one in found:
        if before is not None and before.group == one.group:
            for start in range(before.ts + trigger.slide, one.ts, trigger.slide):
                yield Result(one.group, start, start + trigger.length, value, value)
        yield one
        before = one


def _written(one: Change, value: str) -> tuple[object, ...]:
    row = one.row or {}
    named = ("op", value, "s")
    return (
        one.child,
        one.place,
        one.first,
        *(row.get(name) for name in named),
        *(name in row for name in named),
    )


# Of each child the latest of the row that came first and stayed and of those before it, for which of these
# was judged first nobody can tell; a group of several has certainly begun with the latest.
_FIRST_LIVE = """
SELECT grp, max(w.ts) AS ts
FROM (SELECT grp, child, min(since) AS since FROM judged GROUP BY grp, child) f
JOIN written w ON w.child = f.child AND w.place <= f.since
GROUP BY grp
"""
_FIRST_MADE = """
SELECT grp, min(ts) AS ts FROM judged JOIN made USING (child) WHERE since < until GROUP BY grp
"""

# ``first`` to ``last`` are the times of the rows that a result stands for.
_RESULTS = """
SELECT w.grp, w.start, w.upto, count(a.ts), sum(a.v)
FROM windows w LEFT JOIN {rows} a ON a.grp = w.grp AND a.ts BETWEEN w.first AND w.last
GROUP BY ALL ORDER BY ALL
"""


def _windows(stream: Stream) -> str:
    """SELECT of the windows with rows: grp, start, upto, first, last. Of a stream that shows them before they
    close those of all rows, else those that T has closed."""
    shows = stream.shows
    match stream.trigger:
        case Interval():
            return _interval(stream.trigger, shows)
        case Session(gap):
            return _session(gap, shows)
        case State(true_for):
            return _state(true_for, shows)
        case Event(start, end, true_for):
            return _event(start, end, true_for, shows)
        case Count(rows, slide):
            return _count(rows, slide, shows)
        case Sliding(slide):
            return _sliding(slide)
        case EveryRow():
            return "SELECT grp, ts AS start, ts AS upto, ts AS first, ts AS last FROM judged"


def _if(closed: str, shows: bool) -> str:
    """The condition under which a window counts."""
    return "true" if shows else closed


def _interval(trigger: Interval, shows: bool) -> str:
    length, slide, offset = trigger
    begin = f"ts - ((ts - {offset}) % {slide} + {slide}) % {slide}"
    return f"""
    SELECT DISTINCT grp, start, start + {length} AS upto, start AS first, start + {length} - 1 AS last
    FROM (SELECT grp, unnest(range({begin}, ts - {length}, -{slide})) AS start FROM judged)
    JOIN reach USING (grp) WHERE {_if(f"start + {length} <= t", shows)}"""


def _session(gap: int, shows: bool) -> str:
    return f"""
    WITH marked AS (
      SELECT grp, ts, coalesce(ts - lag(ts) OVER (PARTITION BY grp ORDER BY ts) > {gap}, true) AS opens
      FROM judged),
    numbered AS (
      SELECT grp, ts, count(*) FILTER (opens) OVER (PARTITION BY grp ORDER BY ts) AS number FROM marked)
    SELECT grp, min(ts) AS start, max(ts) AS upto, start AS first, upto AS last
    FROM numbered JOIN reach USING (grp) GROUP BY grp, number, t
    HAVING {_if(f"max(ts) + {gap} < t", shows)}"""


def _state(true_for: int, shows: bool) -> str:
    return f"""
    WITH known AS (FROM judged WHERE s IS NOT NULL),
    marked AS (
      SELECT grp, ts, coalesce(s <> lag(s) OVER (PARTITION BY grp ORDER BY ts), true) AS opens FROM known),
    numbered AS (
      SELECT grp, ts, count(*) FILTER (opens) OVER (PARTITION BY grp ORDER BY ts) AS number FROM marked),
    runs AS (SELECT grp, number, min(ts) AS start, max(ts) AS upto FROM numbered GROUP BY grp, number),
    ended AS (SELECT *, lead(start) OVER (PARTITION BY grp ORDER BY start) AS next FROM runs)
    SELECT grp, start, upto, start AS first, upto AS last FROM ended JOIN reach USING (grp)
    WHERE {_if("next <= t", shows)} AND upto - start >= {true_for}"""


def _event(start: int, end: int, true_for: int, shows: bool) -> str:
    # the rows up to and with one that ends are a stretch, whose first starting row opens the window
    return f"""
    WITH marked AS (
      SELECT grp, ts, coalesce(v >= {start}, false) AS starts, coalesce(v < {end}, false) AS ends
      FROM judged JOIN reach USING (grp) WHERE {_if("ts <= t", shows)}),
    numbered AS (
      SELECT *, count(*) FILTER (ends) OVER (
        PARTITION BY grp ORDER BY ts ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS number
      FROM marked)
    SELECT grp, min(ts) FILTER (starts) AS start, max(ts) FILTER (ends) AS upto, start AS first, upto AS last
    FROM numbered GROUP BY grp, number HAVING start IS NOT NULL AND upto - start >= {true_for}"""


def _count(rows: int, slide: int, shows: bool) -> str:
    upto = f"lead(ts, {rows - 1}) OVER (PARTITION BY grp ORDER BY ts)"
    if shows:
        upto = f"coalesce({upto}, max(ts) OVER (PARTITION BY grp))"
    return f"""
    WITH numbered AS (
      SELECT grp, ts, row_number() OVER (PARTITION BY grp ORDER BY ts) - 1 AS number,
             {upto} AS upto
      FROM judged JOIN reach USING (grp) WHERE {_if("ts <= t", shows)})
    SELECT grp, ts AS start, upto, start AS first, upto AS last
    FROM numbered WHERE number % {slide} = 0 AND upto IS NOT NULL"""


def _sliding(slide: int) -> str:
    """Every instant from the first row's on, rows or none."""
    return f"""
    SELECT grp, instant AS start, instant - {slide} AS upto, instant - {slide} + 1 AS first, instant AS last
    FROM (SELECT grp,
                 unnest(generate_series((min(ts) + {slide} - 1) // {slide} * {slide}, t, {slide})) AS instant
          FROM judged JOIN reach USING (grp) GROUP BY grp, t)"""
