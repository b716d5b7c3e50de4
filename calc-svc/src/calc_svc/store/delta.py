"""A table's rows on disk: a Delta table written by ``deltalake``, its Kafka positions in each commit."""

from __future__ import annotations

import math
import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import msgspec
import numpy as np
import polars as pl
import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Field, Transaction, write_deltalake
from deltalake.exceptions import DeltaError

from calc_svc.store.columns import arrow_type, from_arrow, stored_name
from millrace_core.errors import ErrorCode, MillraceError
from millrace_core.model.schema import Table
from millrace_core.store.place import NOWHERE, Spans, nowhere
from millrace_core.store.rows import Flush
from millrace_core.store.run import Run
from millrace_core.store.search import Ints
from millrace_core.timeline.precision import HIGHEST, LOWEST

# no column's stored name begins like these: there "-" is followed by two hexadecimal digits
NAME = "-tbname"
PLACE = "-place"  # where in the log the row was written last; NULL in files from before it was kept
FIRST = "-first"  # where it was written first; NULL: the same place, as in files from before this column
COMPACT_FILES = 48
COMPACT_BYTES = 64 * 1024 * 1024
KEEP_SECONDS = 600.0
"""How long files that a table no longer has are kept by default: a query that has begun may read them."""
LOOK_SECONDS = 120.0  # between two looks for files that the table no longer has
Filter = tuple[str, str, object]
"""(column, comparison, value)."""


LOG = "_delta_log"


def sync_path(path: Path) -> None:
    """Make sure that the path is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _app(partition: int) -> str:
    return f"wal/{partition}"


class DamagedTable(MillraceError):
    """A table's files cannot be read. Whatever needs them waits until somebody has repaired them; other
    tables are not affected."""

    def __init__(self, table: Table, path: Path, cause: str) -> None:
        super().__init__(
            ErrorCode.DAMAGED,
            f"the files of table {table.db}.{table.name} are damaged: {cause}; restore the folder {path} "
            "from a copy, or leave an empty folder there to continue with what is still in its WAL topic",
        )


@dataclass(frozen=True, slots=True)
class StoredRows:
    """Rows as they are stored: for each, its table, the table's columns, and where in the log it was written
    last and first."""

    names: pl.Series
    data: pl.DataFrame
    place: Ints
    first: Ints


class DeltaRows:
    """The Delta table of one Millrace table. One thread writes; any may read.

    ``keep_seconds``: how long files that the table no longer has are kept, and the entries of its log: longer
    than any query may take.
    """

    def __init__(self, path: Path, table: Table, keep_seconds: float = KEEP_SECONDS) -> None:
        self.path = path
        self._keep_seconds = keep_seconds
        self._commits = 0
        self._dead: dict[str, float] = {}
        """Files that the table no longer has -> since when (monotonic) that has been known."""
        self._looked = time.monotonic()
        self.evolve(table)

    def evolve(self, table: Table) -> None:
        """Use these columns of the table from now on. Files keep a column under its identity: in old files, a
        new column is NULL, and a dropped one is not read any more."""
        self.table = table
        self.fields = [(c.name, stored_name(c.identity), arrow_type(c.type)) for c in table.columns]
        self.key = self.fields[0][1]

    @property
    def schema(self) -> pa.Schema:
        added = [(NAME, pa.string()), (PLACE, pa.int64()), (FIRST, pa.int64())]
        return pa.schema([pa.field(n, t) for n, t in [*added, *((n, t) for _, n, t in self.fields)]])

    def open(self) -> DeltaTable | None:
        """None before the first commit; :raises DamagedTable: for files that are not a whole Delta table."""
        uri = str(self.path)
        # asked first: the writer may create the table meanwhile, and it writes the log before anything else
        there = any(self.path.glob("*.parquet")) or any(self.path.glob(f"{LOG}/*.json"))
        with self._readable():
            if DeltaTable.is_deltatable(uri):
                return DeltaTable(uri)
        if there:
            raise DamagedTable(self.table, self.path, f"there is no log in {LOG}")
        return None

    @contextmanager
    def _readable(self) -> Iterator[None]:
        """For code that reads files:
        :raises DamagedTable: if that fails."""
        try:
            yield
        except (DeltaError, OSError) as error:
            cause = next(iter(str(error).splitlines()), type(error).__name__)
            raise DamagedTable(self.table, self.path, cause) from error

    def positions(self, partitions: Sequence[int]) -> dict[int, int]:
        """Partition -> the WAL offset up to which (exclusive) the table's rows are here."""
        delta = self.open()
        if delta is None:
            return {}
        versions = {partition: delta.transaction_version(_app(partition)) for partition in partitions}
        return {partition: version for partition, version in versions.items() if version is not None}

    def reached(self, app: str) -> int:
        """The number that a commit has recorded for something other than the WAL; 0: none has."""
        delta = self.open()
        return (0 if delta is None else delta.transaction_version(app)) or 0

    def commit(
        self, flush: Flush, names: Sequence[str], positions: Mapping[int, int],
        said: Mapping[str, int] | None = None,
    ) -> None:  # fmt: skip
        """Make the flush durable. Deletions go first, in a commit of their own: after a crash between the two
        commits they are replayed from the old positions, with the same result. ``said``: numbers to record
        for other files of the table (:meth:`reached`)."""
        opened = self.open()
        before = -1 if opened is None else opened.version()
        delta = self._evolved(opened or self._create())
        if flush.deletions:
            delta.delete(" OR ".join(self._range(names[d.child], d.first, d.last) for d in flush.deletions))
        numbers = {_app(partition): offset for partition, offset in positions.items()} | dict(said or {})
        properties = CommitProperties(
            app_transactions=[Transaction(app, number) for app, number in numbers.items()]
        )
        if len(flush.changed):
            parts = [self._rows(run, names, delta) for run in (flush.fresh, flush.changed)]
            rows = pa.concat_tables(parts)
            self._merge(delta, rows, flush, properties)
        elif len(flush.fresh):
            write_deltalake(
                delta, self._rows(flush.fresh, names, delta), mode="append", commit_properties=properties
            )
        else:
            delta.create_write_transaction([], "append", delta.schema(), [], commit_properties=properties)
        self._sync(before)
        self._commits += 1

    def _sync(self, before: int) -> None:
        """Make sure that everything after version ``before`` is on the disk: the WAL may forget it then."""
        log = self.path / LOG
        for version in range(before + 1, (self._version() or 0) + 1):
            entry = log / f"{version:020}.json"
            for line in entry.read_bytes().splitlines():
                added = msgspec.json.decode(line).get("add")
                if added is not None:
                    sync_path(self.path / unquote(added["path"]))
            for path in (entry, *log.glob(f"{version:020}.checkpoint*"), *log.glob("_last_checkpoint")):
                sync_path(path)
        for folder in (log, self.path, *([self.path.parent] if before < 0 else [])):
            sync_path(folder)

    def _version(self) -> int | None:
        delta = self.open()
        return None if delta is None else delta.version()

    def _create(self) -> DeltaTable:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        return DeltaTable.create(str(self.path), self.schema, configuration=self._properties())

    def _properties(self) -> dict[str, str]:
        """Without the second one, every checkpoint of the log names each file that went in the last week."""
        kept = f"interval {math.ceil(self._keep_seconds)} seconds"
        return {
            "delta.logRetentionDuration": kept,
            "delta.deletedFileRetentionDuration": kept,
            "delta.checkpointInterval": "20",
        }

    def _evolved(self, delta: DeltaTable) -> DeltaTable:
        """Add columns that are newer than the files (such as the place), which are NULL in the files' rows;
        and set properties that are not as they should be."""
        properties = self._properties()
        if not properties.items() <= delta.metadata().configuration.items():
            delta.alter.set_table_properties(properties)
        there = {field.name for field in delta.schema().fields}
        new = [field for field in self.schema if field.name not in there]
        if new:
            delta.alter.add_columns([Field.from_arrow(field) for field in new])
        return delta

    def _range(self, name: str, first: int, last: int) -> str:
        quoted = name.replace("'", "''")
        key = f'"{self.key}"'
        text = f"""("{NAME}" = '{quoted}'"""
        text += f" AND {key} >= {first}" if first > LOWEST else ""
        text += f" AND {key} <= {last}" if last < HIGHEST else ""
        return text + ")"

    def _merge(self, delta: DeltaTable, rows: pa.Table, flush: Flush, properties: CommitProperties) -> None:
        second = next((stored_name(c.identity) for c in self.table.columns[1:] if c.composite_key), None)
        low, high = flush.changed.low, flush.changed.high
        # the bounds let the merge skip files that hold none of the changed rows
        matches = [f't."{NAME}" = s."{NAME}"', f't."{self.key}" = s."{self.key}"']
        matches += [f't."{self.key}" >= {low}', f't."{self.key}" <= {high}']
        if second:
            matches.append(f't."{second}" IS NOT DISTINCT FROM s."{second}"')
        merger = delta.merge(
            rows, " AND ".join(matches), source_alias="s", target_alias="t", commit_properties=properties
        )
        # where a row that has left the memory was written first is known only to its file
        began = {f"t.`{FIRST}`": f"coalesce(t.`{FIRST}`, t.`{PLACE}`, {NOWHERE})"}
        cells = {f"t.`{name}`": f"s.`{name}`" for name in rows.column_names if name != FIRST}
        merger.when_matched_update(cells | began).when_not_matched_insert_all().execute()

    def _rows(self, run: Run, names: Sequence[str], delta: DeltaTable) -> pa.Table:
        """The run's rows with the columns of the Delta table; dropped columns are NULL."""
        tbname = pl.Series(np.array(names, dtype=object)[run.child].tolist(), dtype=pl.String)
        table = run.data.to_arrow()
        columns: list[object] = [tbname.to_arrow().cast(pa.string()), pa.array(run.place, pa.int64())]
        columns.append(pa.array(run.began, pa.int64(), mask=run.began == run.place))
        columns += [table[name].cast(type_) for name, _, type_ in self.fields]
        rows = pa.table(columns, schema=self.schema)
        for field in pa.schema(delta.schema().to_arrow()):
            if field.name not in rows.column_names:
                rows = rows.append_column(field, pa.array([None] * len(rows), field.type))
        return rows

    def read(self, low: int = LOWEST, high: int = HIGHEST) -> StoredRows:
        """Rows with ``low <= ts <= high``."""
        return self._read([(self.key, ">=", low), (self.key, "<=", high)])

    def read_at(self, names: Sequence[str], ts: Sequence[int]) -> StoredRows:
        """Rows of any of these tables at any of these times."""
        return self._read([(NAME, "in", sorted(set(names))), (self.key, "in", sorted(set(ts)))])

    def read_written(self, spans: Spans, high: int) -> StoredRows:
        """Rows with ``ts <= high`` that were written last in one of these spans of the log."""
        delta = self.open()
        if not spans or delta is None or all(field.name != PLACE for field in delta.schema().fields):
            return self.rows_of(self.schema.empty_table())
        until: Filter = (self.key, "<=", high)
        return self._read(*([(PLACE, ">=", first), (PLACE, "<", end), until] for first, end in spans))

    def _read(self, *filters: list[Filter]) -> StoredRows:
        """Rows that meet all conditions of at least one of the lists."""
        delta = self.open()
        if delta is None:
            return self.rows_of(self.schema.empty_table())
        with self._readable():
            return self.rows_of(delta.to_pyarrow_table(filters=list(filters)))

    def rows_of(self, found: pa.Table) -> StoredRows:
        """The rows that a file's columns hold."""
        cells: list[Any] = [
            found[stored] if stored in found.column_names else pa.array([None] * len(found), type_)
            for _, stored, type_ in self.fields
        ]
        own = pa.table(cells, names=[name for name, _, _ in self.fields])
        rows = from_arrow(own, self.table.columns)
        place = first = pl.Series(nowhere(len(found)))
        if PLACE in found.column_names:
            place = first = pl.Series(pl.from_arrow(found[PLACE])).fill_null(NOWHERE)
        if FIRST in found.column_names:
            first = pl.Series(pl.from_arrow(found[FIRST])).fill_null(place)
        return StoredRows(pl.Series(pl.from_arrow(found[NAME])), rows, place.to_numpy(), first.to_numpy())

    def statistics(self) -> list[tuple[int, int, int]]:
        """(lowest time, highest time, rows) of each file."""
        delta = self.open()
        if delta is None:
            return []
        actions = pa.table(delta.get_add_actions(flatten=True))
        if not len(actions):
            return []
        names = [f"min.{self.key}", f"max.{self.key}", "num_records"]
        return [(low, high, rows) for low, high, rows in pl.DataFrame(actions.select(names)).iter_rows()]

    def files(self, low: int, high: int) -> list[str]:
        """Paths of the Parquet files that may hold rows with ``low <= ts <= high``."""
        delta = self.open()
        if delta is None:
            return []
        uris = delta.file_uris(file_pruning_predicate=[(self.key, ">=", low), (self.key, "<=", high)])
        return [uri.removeprefix("file://") for uri in uris]

    def expire(self, cut: int) -> None:
        """Remove the rows with ``ts < cut``."""
        delta = self.open()
        if delta is not None:
            before = delta.version()
            self._commits += 1
            delta.delete(f'"{self.key}" < {cut}')
            self._sync(before)

    def maintain(self) -> None:
        """Now and then merge small files and remove those that no reader can need."""
        now = time.monotonic()
        compacts = self._commits >= COMPACT_FILES
        delta = self.open() if compacts or now - self._looked >= LOOK_SECONDS else None
        if delta is not None and compacts:
            self._commits = 0
            before = delta.version()
            delta.optimize.compact(target_size=COMPACT_BYTES, max_concurrent_tasks=1)
            self._sync(before)
        if delta is not None:
            self._looked = now
            self.vacuum(now)

    def vacuum(self, now: float) -> None:
        """Remove files that the table has not had for a while (Delta itself only knows whole hours). If this
        process did not see a file being replaced, that file has to wait as long from now."""
        delta = self.open()
        if delta is None:
            return
        # by what is in the folder: the log may have forgotten that a file went, and a crash that it came
        dead = delta.vacuum(0, dry_run=True, enforce_retention_duration=False, full=True)
        self._dead = {path: self._dead.get(path, now) for path in dead}
        for path in [path for path, since in self._dead.items() if now - since >= self._keep_seconds]:
            (self.path / unquote(path)).unlink(missing_ok=True)
            del self._dead[path]

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
