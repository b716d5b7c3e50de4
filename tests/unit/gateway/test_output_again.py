"""A dropped output table is made again when calc-svc has a result for it."""

from __future__ import annotations

import time
from typing import Any

from millrace_core.wire import registrations
from millrace_core.wire.registrations import OutputWanted
from millrace_wal import Message


def test_a_dropped_output_table_comes_back_when_it_is_wanted(rig: Any) -> None:
    rig("CREATE STABLE meters (ts TIMESTAMP, v INT) TAGS (site INT)")
    rig.calc.describes(("ts", "TIMESTAMP"), ("n", "BIGINT"))
    rig(
        "CREATE STREAM s SESSION(ts, 2s) FROM meters PARTITION BY site INTO o"
        " AS SELECT _twstart AS ts, count(*) AS n FROM %%trows"
    )
    tables = rig.gateway.context.catalog.tables
    before = tables["d", "o"]
    rig("DROP TABLE o")
    uid = rig.gateway.context.catalog.streams["d", "s"].spec.uid
    for wanted in (OutputWanted(uid), OutputWanted(uid), OutputWanted(uid + 1)):
        rig.log.append([Message(*registrations.encode(wanted))])
    until = time.monotonic() + 10
    while ("d", "o") not in tables:
        assert time.monotonic() < until
        time.sleep(0.02)
    after = tables["d", "o"]
    assert (after.columns, after.tags, after.kind) == (before.columns, before.tags, "super")
    assert after.uid != before.uid
    assert "wal.d.o" in rig.log.topics("wal.")
