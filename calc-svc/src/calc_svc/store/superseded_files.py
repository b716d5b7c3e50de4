"""The files of rows that were overwritten (``millrace_core.store.superseded``), beside a table's own files.

A file has what was overwritten since the file before, or (``whole``) all that is kept. Files are numbered,
and the Delta commit of the same flush records the number of its file. So after a crash, files and rows are as
of the same place in the log; what is read again from there overwrites the same rows again.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from calc_svc.store.columns import to_arrow
from calc_svc.store.delta import NAME, PLACE, DeltaRows, StoredRows, sync_path
from millrace_core.store.run import Run
from millrace_core.store.superseded import Unsaved

FOLDER = "_superseded"
APP = "superseded"
WHOLE, MORE = "whole", "more"
MOST_FILES = 64
"""If there are more, they are merged."""


class SupersededFiles:
    """The files of one table. One thread writes; none reads meanwhile."""

    def __init__(self, delta: DeltaRows) -> None:
        self._delta = delta
        self.folder = delta.path / FOLDER
        self._number = 0
        """The number of the file that was written last."""
        self._files = 0

    def read(self) -> list[StoredRows]:
        """What the files hold as of the last commit, file by file."""
        found: list[Path] = []
        reached = self._delta.reached(APP)
        for path in self._paths():
            if _number(path) <= reached:
                found = [path] if path.stem.endswith(WHOLE) else [*found, path]
        self._files = len(found)
        return [self._delta.rows_of(pq.read_table(path)) for path in found]

    @property
    def full(self) -> bool:
        """Whether the next file should hold all that is kept."""
        return self._files >= MOST_FILES

    def write(self, unsaved: Unsaved, names: Sequence[str]) -> dict[str, int]:
        """Write a file; returns what the commit that it belongs to has to record."""
        # asked each time: a flush may have failed after its commit
        number = self._number = self._delta.reached(APP) + 1
        self.folder.mkdir(parents=True, exist_ok=True)
        for path in self._paths():  # left by a flush that failed or crashed
            if _number(path) >= number:
                path.unlink()
        path = self.folder / f"{number:020}-{WHOLE if unsaved.whole else MORE}.parquet"
        pq.write_table(self._table(unsaved.runs, names), path)
        for one in (path, self.folder, self._delta.path):
            sync_path(one)
        return {APP: number}

    def written(self, unsaved: Unsaved) -> None:
        """The commit has been made: older files that no longer matter are removed."""
        self._files += 1
        if unsaved.whole:
            self._files = 1
            for path in self._paths():
                if _number(path) < self._number:
                    path.unlink()

    def remove(self) -> None:
        """No stream counts rewritten rows of this table any more: remove the files."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _paths(self) -> list[Path]:
        return sorted(self.folder.glob("*.parquet"))

    def _table(self, runs: Sequence[Run], names: Sequence[str]) -> pa.Table:
        fields = self._delta.fields
        added = [(NAME, pa.string()), (PLACE, pa.int64())]
        schema = pa.schema([pa.field(n, t) for n, t in [*added, *((n, t) for _, n, t in fields)]])
        parts = [schema.empty_table()]
        for run in runs:
            tables = pa.array([names[number] for number in run.child.tolist()], pa.string())
            cells = to_arrow(run.data, [(name, type_) for name, _, type_ in fields])
            columns = [tables, pa.array(run.place, pa.int64()), *cells.columns]
            parts.append(pa.table(columns, schema=schema))
        return pa.concat_tables(parts)


def _number(path: Path) -> int:
    return int(path.stem.partition("-")[0])
