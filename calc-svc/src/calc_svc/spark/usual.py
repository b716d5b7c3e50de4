"""A query of the usual kind, and rows for it: what Spark is warmed up with."""

from __future__ import annotations

import pyarrow as pa

USUAL = (
    "SELECT _trig._tid, _trig._twstart AS ts, _trig._tbname, a.mean, a.low, a.high, coalesce(a.n, 0)"
    " FROM _trig LEFT JOIN (SELECT s._tid, avg(cast(s.v AS DOUBLE)) AS mean, min(s.v) AS low,"
    " max(s.v) AS high, count(*) AS n FROM _src0 s JOIN _trig ON _trig._tid = s._tid"
    " WHERE s.ts >= _trig._twstart AND s.ts < _trig._twend GROUP BY s._tid) a ON a._tid = _trig._tid"
)
"""A query of the usual kind, as streams' queries are planned: aggregates of a window's rows."""


def usual_rows(count: int) -> dict[str, pa.Table]:
    """The relations of :data:`USUAL`: so many rows, in windows of ten rows each, the last of them empty."""
    windows = count // 10 + 2
    starts = [10_000 * window for window in range(windows)]
    return {
        "_trig": pa.table(
            {
                "_tid": pa.array(range(windows), pa.int32()),
                "_twstart": pa.array(starts, pa.int64()),
                "_twend": pa.array([start + 10_000 for start in starts], pa.int64()),
                "_tbname": [f"d{window}" for window in range(windows)],
            }
        ),
        "_src0": pa.table(
            {
                "_tid": pa.array([row // 10 for row in range(count)], pa.int32()),
                "ts": pa.array([1_000 * row for row in range(count)], pa.int64()),
                "v": pa.array([None if row % 7 == 0 else row for row in range(count)], pa.int32()),
            }
        ),
    }
