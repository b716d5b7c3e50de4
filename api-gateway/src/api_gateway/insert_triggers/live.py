"""One registered trigger: what it watches, its instance, and what becomes of its firings."""

from __future__ import annotations

from collections.abc import Sequence

from api_gateway import metrics
from api_gateway.context import Context
from api_gateway.insert_triggers.instance import Instance
from millrace_core.dialect.iotdb.paths import read_path
from millrace_core.dialect.iotdb.schema import TABLE, Schema
from millrace_core.dialect.iotdb.triggers.life import Failure, TriggerState, moved
from millrace_core.dialect.iotdb.triggers.tablets import Watched
from millrace_core.dialect.iotdb.triggers.watch import Watch, read_pattern
from millrace_core.errors import WireError
from millrace_core.model.insert_trigger import InsertTrigger
from millrace_core.wire.topics import table_of


class Live:
    """``failures``: how many firings have failed since the gateway began."""

    def __init__(self, context: Context, record: InsertTrigger, instance: Instance) -> None:
        self._context, self.record, self.instance = context, record, instance
        self.state = TriggerState.ACTIVE
        self._watch = Watch(read_pattern(record.pattern))
        self._databases: dict[str, bool] = {}
        self.failures = 0

    def watched(self, db: str, device: str) -> Watched | None:
        """What it watches of a device; None if there is no such device."""
        found = Schema(self._context.catalog).named(db, device) if self.may_watch(db) else None
        return None if found is None else Watched(found.name, self._watch.series_of(found))

    def may_watch(self, db: str) -> bool:
        """Whether a series of the database can match."""
        if db not in self._databases:
            self._databases[db] = self._watch.reaches(read_path(db))
        return self._databases[db]

    def hears(self, topic: str, device: str) -> bool:
        """Whether it watches any series of the device whose rows are in this topic."""
        if not topic.startswith("wal.root-2e"):
            return False
        try:
            db, table = table_of(topic)
        except WireError:
            return False
        found = self.watched(db, device) if table == TABLE else None
        return found is not None and bool(found.series)

    def failed(self, why: str, devices: Sequence[str]) -> Failure:
        """Count and log a failure."""
        self.failures += 1
        metrics.TRIGGER_FAILURES.labels(self.record.name).inc()
        self._context.logger.warning(
            "a trigger failed", trigger=self.record.name, reason=why, devices=list(devices[:5])
        )
        return Failure(self.record.name, self.record.strategy, why)

    def move(self, to: TriggerState) -> None:
        self.state = moved(self.state, to)
