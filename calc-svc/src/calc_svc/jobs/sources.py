"""What a plan reads, as relations for Spark: slices of stored rows, per trigger where they are correlated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import polars as pl
import pyarrow as pa

from calc_svc.spark.relations import Parquet, Relation
from calc_svc.store.columns import arrow_type, stored_name, to_arrow
from calc_svc.store.delta import NAME
from calc_svc.store.table import StoredTable, View
from calc_svc.store.tables import TableStore
from calc_svc.store.virtual import VirtualTable
from millrace_core.calc.counting import as_it_came, counts_rewritten
from millrace_core.errors import ErrorCode, PlanError
from millrace_core.model.revisions import names_now
from millrace_core.model.schema import Column, Table
from millrace_core.model.stream import StreamSpec
from millrace_core.plan import SourceUse
from millrace_core.store.family import TBNAME, Family
from millrace_core.store.place import Spans, end_of, from_place, spans_of
from millrace_core.store.run import Children, TooManyRows
from millrace_core.store.search import Ints
from millrace_core.timeline.precision import HIGHEST, LOWEST
from millrace_core.wire.events import Group, TriggerEvent

TID = "_tid"
PARQUET_ROWS = 2_000_000  # from this many stored rows below the memory's floor, Spark reads the files itself
ARROW_ROWS = 500_000  # from this many rows in memory it does so too: handing them over would fill its heap
TriggerRow = Mapping[str, Any]


class Moment(msgspec.Struct, frozen=True, gc=False):  # thousands a job: ten times as fast as a dataclass
    """A trigger as the plan sees it. ``relation`` and ``place``: the trigger relation and the row there;
    ``written``: the stretches of the log since the trigger before (PERIOD only); ``created``: when its stream
    was made (ms); ``rewritten``: whether its rows count as often as they were written; ``skipped``: the
    stretches of the log whose rows do not count in its window; ``until``: the place in its partition after
    which no row counts."""

    relation: pl.DataFrame
    place: int
    group: Group
    written: Spans = ()
    created: int = 0
    rewritten: bool = False
    skipped: Spans = ()
    until: int = HIGHEST

    @property
    def row(self) -> TriggerRow:
        """Its row of the trigger relation."""
        return self.relation.row(self.place, named=True)


def moments_of(
    spec: StreamSpec, relation: pl.DataFrame, events: Sequence[TriggerEvent], skipped: Spans = ()
) -> list[Moment]:
    """The events with their rows of the trigger relation; ``skipped``: what the stream must leave out."""
    counted, created = counts_rewritten(spec), spec.created
    return [
        Moment(
            relation,
            place,
            e.group,
            spans_of(e.written) if e.written else (),
            created,
            counted and as_it_came(e),
            skipped if skipped and as_it_came(e) else (),
            end_of(e.written),
        )
        for place, e in enumerate(events)
    ]


def _rows_of(moments: Sequence[Moment]) -> pl.DataFrame:
    """The rows of some moments of one relation, in its order."""
    relation = moments[0].relation
    return relation if len(moments) == len(relation) else relation[[moment.place for moment in moments]]


def tids_of(moments: Sequence[Moment]) -> np.ndarray:
    """The numbers of the triggers of one relation."""
    return _rows_of(moments)[TID].to_numpy()


def fields_of(source: SourceUse) -> list[tuple[str, pa.DataType]]:
    """The columns that a source gives, with the types that Spark computes with."""
    table = _table(source)
    types = {column.name: arrow_type(column.type) for column in (*table.columns, *table.tags)}
    types.setdefault(TBNAME, pa.string())
    return [(name, types[name]) for name in source.columns]


def _table(source: SourceUse) -> Table:
    if source.table is None:
        raise PlanError(ErrorCode.INTERNAL, f"the source {source.relation} does not name a table")
    return source.table


def range_of(source: SourceUse, row: TriggerRow) -> tuple[int, int]:
    """The times (inclusive) of the rows that a source needs for this trigger."""
    low = None if source.low is None else source.low.evaluate(row)
    high = None if source.high is None else source.high.evaluate(row)
    return LOWEST if low is None else low, HIGHEST if high is None else high


def ranges_of(source: SourceUse, rows: pl.DataFrame) -> tuple[Ints, Ints]:
    """:func:`range_of` for all rows of a trigger relation."""
    none = np.full(len(rows), LOWEST), np.full(len(rows), HIGHEST)
    low = none[0] if source.low is None else source.low.evaluate_all(rows, LOWEST)
    high = none[1] if source.high is None else source.high.evaluate_all(rows, HIGHEST)
    return low, high


def members(
    source: SourceUse, stored: StoredTable | VirtualTable, moment: Moment | None, partition: Sequence[str]
) -> Children | None:
    """The tables that a source reads for this trigger, by number; None: all of the family."""
    found = _members(source, stored.family, moment, partition)
    if source.kind != "trows" or moment is None:
        return found
    return triggering(stored, moment.created, found)


def triggering(stored: StoredTable | VirtualTable, created: int, found: Children | None) -> Children | None:
    """Which of the tables ``found`` (None: of all) trigger a stream made at ``created`` (ms). Children that a
    virtual super table got later do not (seed 000)."""
    if not isinstance(stored, VirtualTable) or stored.table.kind != "super":
        return found
    known = np.array(list(stored.known_since(created).values()), dtype=np.int32)
    return known if found is None else found[np.isin(found, known)]


def _members(
    source: SourceUse, family: Family, moment: Moment | None, partition: Sequence[str]
) -> Children | None:
    if source.own_table:
        return family.numbers_of([(moment.group.table if moment else None) or ""])
    if source.child is not None:
        return family.numbers_of([source.child])
    wanted: dict[str, object] = {}
    if moment is not None:
        if source.group_tags:
            wanted |= dict(zip(partition, moment.group.key, strict=False))
        wanted |= {tag: moment.group.key[place - 1] for tag, place in source.tag_equals}
    if not wanted:
        return None
    names = names_now(_table(source), family.table, list(wanted))
    return family.group({names[tag]: value for tag, value in wanted.items()})


def described(
    view: View, data: pl.DataFrame, child: Children, names: Sequence[str], words: Table | None = None
) -> pl.DataFrame:
    """The rows' cells under these names: columns, tags and the table's name. The names are those of the table
    ``words`` (None: of the table as it is now)."""
    now = names_now(words or view.table, view.table, names)
    return pl.DataFrame([
        (data[now[name]] if now[name] in data.columns else view.described[now[name]][child]).alias(name)
        for name in names
    ])  # fmt: skip


def one_relation(
    source: SourceUse,
    store: TableStore,
    moment: Moment | None = None,
    partition: Sequence[str] = (),
    files_from: int = PARQUET_ROWS,
    arrow_to: int = ARROW_ROWS,
) -> Relation:
    """The rows of a source for a user's query, or for one trigger.

    With ``files_from`` stored rows below the memory's floor, or more than ``arrow_to`` rows to hand over,
    Spark reads the files itself.
    """
    stored = store.readable(_table(source))
    low, high = range_of(source, moment.row if moment else {})
    with stored.lock:
        wanted = members(source, stored, moment, partition)
    if source.written:
        view = stored.written(moment.written if moment else ())
    elif (
        isinstance(stored, StoredTable)
        and low < stored.rows.floor
        and _rows_in_files(stored, low, high) >= files_from
    ):
        return _files(source, stored, wanted, low, high)
    else:
        view = stored.view(low, high)
    if source.kind == "trows" and moment is not None and moment.skipped:
        view = replace(view, slices=view.slices.without(moment.skipped))
    if source.kind == "trows" and moment is not None and moment.until != HIGHEST:
        view = replace(view, slices=view.slices.without(from_place(moment.until)))
    if wanted is None:
        data, child = view.slices.within(low, high)
    else:
        size = len(wanted)
        data, _, child = view.slices.between(wanted, np.full(size, low), np.full(size, high))
    if source.kind == "trows" and moment is not None and moment.rewritten and isinstance(stored, StoredTable):
        data, child = _with_superseded(stored, data, child, wanted, (low, high), moment.until)
    if len(data) > arrow_to and isinstance(stored, StoredTable) and not source.written:
        return _files(source, stored, wanted, low, high)
    return to_arrow(described(view, data, child, source.columns, _table(source)), fields_of(source))


def _with_superseded(
    stored: StoredTable, data: pl.DataFrame, child: Children, wanted: Children | None, span: tuple[int, int],
    until: int,
) -> tuple[pl.DataFrame, Children]:  # fmt: skip
    """The rows, and those that they were written over."""
    kept, (low, high) = stored.superseded(), span
    if until != HIGHEST:
        kept = kept.without(from_place(until))
    if wanted is None:
        more, of = kept.within(low, high)
    else:
        size = len(wanted)
        more, _, of = kept.between(wanted, np.full(size, low), np.full(size, high))
    return (pl.concat([data, more]), np.concatenate([child, of])) if len(more) else (data, child)


def _rows_in_files(stored: StoredTable, low: int, high: int) -> int:
    return sum(n for first, last, n in stored.delta.statistics() if last >= low and first <= high)


def _files(source: SourceUse, stored: StoredTable, wanted: Children | None, low: int, high: int) -> Relation:
    """The files that Spark reads itself: they hold all rows that have come by now."""
    files = stored.files(low, high)
    with stored.lock:
        view = View(stored.table, stored.rows.slices().none(), stored.family.described(), stored.family)
    fields = fields_of(source)
    words = _table(source)
    tags = [(name, type_) for name, type_ in fields if words.tag(name)]
    own = [column for column in words.columns if column.name in source.columns]
    names_now(words, view.table, source.columns)
    alive = np.array(sorted(stored.family.numbers.values()), dtype=np.int32) if wanted is None else wanted
    needs_members = wanted is not None or bool(tags)
    return Parquet(
        tuple(files),
        (*((stored_name(column.identity), column.name) for column in own), (NAME, TBNAME)),
        stored.delta.key, low, high, TBNAME,
        to_arrow(
            described(view, pl.DataFrame(), alive, [TBNAME, *(n for n, _ in tags)], words),
            [(TBNAME, pa.string()), *tags],
        ) if needs_members else None,
        _ddl(stored.delta.key, own),
    )  # fmt: skip


def _ddl(key: str, columns: Sequence[Column]) -> str:
    """What to read of files: the key, the table's name and these columns."""
    types = {key: "BIGINT", NAME: "STRING"}
    types |= {stored_name(column.identity): column.type.info.spark for column in columns}
    return ", ".join(f"`{name}` {type_}" for name, type_ in types.items())


def set_relation(
    source: SourceUse, store: TableStore, moments: Sequence[Moment], partition: Sequence[str], limit: int
) -> pa.Table:
    """The slices of all triggers in one relation, each row with its trigger's ``_tid``.

    ``moments``: of one trigger relation.

    :raises TooManyRows: for more than ``limit`` rows, or if Spark should read one trigger's from files.
    """
    rows = _rows_of(moments)
    tids = rows[TID].to_numpy()
    if len(moments) == 1:
        alone = one_relation(source, store, moments[0], partition)
        if isinstance(alone, Parquet):
            raise TooManyRows
        tid = pa.array([int(tids[0])] * alone.num_rows, pa.int32())
        return alone.add_column(0, pa.field(TID, pa.int32()), tid)
    stored = store.readable(_table(source))
    low, high = ranges_of(source, rows)
    if source.written:
        view, data, child, owner = _written_slices(source, stored, moments, partition, limit)
    else:
        view = stored.view(int(low.min(initial=HIGHEST)), int(high.max(initial=LOWEST)))
        if not source.correlated and source.child is None:
            data, child, owner = _same_for_all(view, moments, int(low[0]), int(high[0]), limit)
        else:
            data, child, owner = _own_slices(source, stored, view, moments, partition, low, high, limit)
    frame = described(view, data, child, source.columns, _table(source))
    frame = frame.hstack([pl.Series(TID, tids[owner])])
    return to_arrow(frame, [(TID, pa.int32()), *fields_of(source)])


def _same_for_all(
    view: View, moments: Sequence[Moment], low: int, high: int, limit: int
) -> tuple[pl.DataFrame, Children, Ints]:
    data, child = view.slices.within(low, high)
    if len(data) * len(moments) > limit:
        raise TooManyRows
    rows = np.tile(np.arange(len(data)), len(moments))
    owner = np.repeat(np.arange(len(moments), dtype=np.int64), len(data))
    return data[rows], child[rows], owner


def _own_slices(
    source: SourceUse, stored: StoredTable | VirtualTable, view: View, moments: Sequence[Moment],
    partition: Sequence[str], low: Ints, high: Ints, limit: int,
) -> tuple[pl.DataFrame, Children, Ints]:  # fmt: skip
    child, trigger = _members_of_all(source, stored, moments, partition, limit)
    low, high, until = low[trigger], high[trigger], _until(source, moments, trigger)
    data, owner, of = _between(source, view, moments, child, (low, high, until), trigger, limit)
    again = np.flatnonzero(np.array([moment.rewritten for moment in moments], dtype=bool)[trigger])
    if source.kind == "trows" and isinstance(stored, StoredTable) and len(again):
        more, asked, of_more = stored.superseded().between(
            child[again], low[again], high[again], None if until is None else until[again]
        )
        if len(more):
            data = pl.concat([data, more])
            owner, of = np.concatenate([owner, again[asked]]), np.concatenate([of, of_more])
    return data, of, trigger[owner]


def _members_of_all(
    source: SourceUse, stored: StoredTable | VirtualTable, moments: Sequence[Moment],
    partition: Sequence[str], limit: int,
) -> tuple[Children, Ints]:  # fmt: skip
    """The tables that a source reads for each trigger, by number, and the trigger that each is read for."""
    if source.own_table and isinstance(stored, StoredTable):  # one each: the usual case, thousands of them
        # without the lock: a look-up takes none, and who has it may be sorting rows
        own = stored.family.numbers_of([moment.group.table or "" for moment in moments])
        if len(own) > limit:
            raise TooManyRows
        return own, np.arange(len(own), dtype=np.int64)
    with stored.lock:
        everyone = np.array(list(stored.family.numbers.values()), dtype=np.int32)
        parts = [members(source, stored, moment, partition) for moment in moments]
    sets = [everyone if part is None else part for part in parts]
    if sum(map(len, sets)) > limit:
        raise TooManyRows
    sizes = np.array([len(part) for part in sets], dtype=np.int64)
    return np.concatenate(sets), np.repeat(np.arange(len(sets), dtype=np.int64), sizes)


def _between(
    source: SourceUse, view: View, moments: Sequence[Moment], child: Children,
    bounds: tuple[Ints, Ints, Ints | None], trigger: Ints, limit: int,
) -> tuple[pl.DataFrame, Ints, Children]:  # fmt: skip
    """As :meth:`Slices.between`, of these tables, each for its trigger; ``bounds``: low, high and until."""
    low, high, until = bounds
    skipped = next((moment.skipped for moment in moments if moment.skipped), ())
    if source.kind != "trows" or not skipped:
        return view.slices.between(child, low, high, until, limit)
    partly = np.array([bool(moment.skipped) for moment in moments], dtype=bool)[trigger]
    parts = []
    for slices, mine in (
        (view.slices, np.flatnonzero(~partly)), (view.slices.without(skipped), np.flatnonzero(partly)),
    ):  # fmt: skip
        ends = None if until is None else until[mine]
        data, owner, of = slices.between(child[mine], low[mine], high[mine], ends, limit)
        limit -= len(data)
        parts.append((data, mine[owner], of))
    datas, owners, children = zip(*parts, strict=True)
    return pl.concat(datas), np.concatenate(owners), np.concatenate(children)


def _until(source: SourceUse, moments: Sequence[Moment], trigger: Ints) -> Ints | None:
    """For each table that is read for a trigger, the place after which rows do not count; None: all count."""
    if source.kind != "trows" or all(moment.until == HIGHEST for moment in moments):
        return None
    return np.array([moment.until for moment in moments], dtype=np.int64)[trigger]


def _written_slices(
    source: SourceUse, stored: StoredTable | VirtualTable, moments: Sequence[Moment],
    partition: Sequence[str], limit: int,
) -> tuple[View, pl.DataFrame, Children, Ints]:  # fmt: skip
    """What was written since the trigger before each: triggers of one instant share a stretch of the log."""
    by_spans: dict[Spans, list[int]] = {}
    for place, moment in enumerate(moments):
        by_spans.setdefault(moment.written, []).append(place)
    parts: list[tuple[pl.DataFrame, Children, Ints]] = []
    rows = 0
    for spans, places in by_spans.items():
        view = stored.written(spans)
        low, high = np.full(len(places), LOWEST), np.full(len(places), HIGHEST)
        these = [moments[place] for place in places]
        data, child, owner = _own_slices(source, stored, view, these, partition, low, high, limit - rows)
        rows += len(data)
        parts.append((data, child, np.array(places, dtype=np.int64)[owner]))
    datas, children, owners = zip(*parts, strict=True)
    # the last view knows all members that the others know
    return view, pl.concat(datas), np.concatenate(children), np.concatenate(owners)
