"""Child tables that producers made by writing to them: calc-svc reports them, and here they are entered into
the catalog."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from itertools import groupby

from api_gateway.context import Context
from api_gateway.statements.streams import make_output
from api_gateway.tables.children import drop_children, enter
from millrace_core.catalog import Catalog
from millrace_core.errors import MillraceError
from millrace_core.model.schema import Child
from millrace_core.timeline.precision import milliseconds
from millrace_core.wire import registrations
from millrace_core.wire.registrations import OutputGone, OutputWanted, Registration
from millrace_core.wire.topics import REGISTRATIONS
from millrace_service import behind, passed_over
from millrace_wal import DeadLetters, GapWatch, GroupReader, Log, Record

POLL_SECONDS = 1.0


class Registrar:
    """Turns what comes into catalog records, and deletes topics that may go. A work of
    :class:`millrace_service.Life`: what could not be written is read again from the last commit on."""

    def __init__(self, log: Log, context: Context) -> None:
        self.name, self.stopping = "registrations", threading.Event()
        self._log, self._context = log, context
        self._dead = DeadLetters(log, "api-gateway", passed_over(context.logger))
        self._reader: GroupReader | None = None
        self._done: dict[int, int] = {}
        self._gaps = GapWatch(log, "api-gateway", "api-gateway")

    def begin(self) -> None:
        self._reader = self._log.subscribe("api-gateway", [REGISTRATIONS.name])
        self._gaps = GapWatch(self._log, "api-gateway", "api-gateway")

    def step(self) -> None:
        assert self._reader is not None, "begin comes first"
        records = self._reader.poll(POLL_SECONDS)
        if records:
            self._gaps.watch(records)
            self._register(records)
            self._reader.commit({(r.topic, r.partition): r.offset + 1 for r in records})
        self._done = dict(self._reader.positions().get(REGISTRATIONS.name, {}))
        self._context.topics.sweep()

    def end(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def look(self) -> tuple[object, str]:
        """How far registrations have been entered into the catalog, and what lies beyond."""
        ends = self._log.end_offsets(REGISTRATIONS.name)
        return dict(self._done), behind(REGISTRATIONS.name, ends, self._done)

    def _register(self, records: Sequence[Record]) -> None:
        with self._context.writer.ddl:
            found = self._dead.understood(records, registrations.REGISTERED.read)
            # in order: under one name, a child may go and come again
            for are_children, some in groupby(found, lambda one: isinstance(one[1], Child)):
                if are_children:
                    self._enter([wanted for _, wanted in some])
                else:
                    self._grant_all(some)
        self._dead.write()

    def _enter(self, children: Sequence[Registration]) -> None:
        fresh = new_children(self._context.catalog, children)
        enter(self._context, fresh, "producer")

    def _grant_all(self, wishes: Iterable[tuple[Record, Registration]]) -> None:
        for record, wanted in wishes:
            try:
                self._grant(wanted)
            except MillraceError as error:
                if error.code.value.retry:
                    raise
                self._dead.bury(record, error)

    def _grant(self, wanted: Registration) -> None:
        if isinstance(wanted, OutputWanted):
            self._make_output(wanted)
        elif isinstance(wanted, OutputGone):
            self._drop_output(wanted)

    def _make_output(self, wanted: OutputWanted) -> None:
        """Make the output table again for a stream that has a result to write: the table was dropped."""
        context = self._context
        for entry in list(context.catalog.streams.values()):
            output = entry.spec.output
            if entry.spec.uid != wanted.stream or output is None:
                continue
            if output.db not in context.catalog.databases:
                continue
            if context.catalog.find(output.db, output.table) is None:
                make_output(context, entry.spec, milliseconds(time.time_ns()), None)

    def _drop_output(self, wanted: OutputGone) -> None:
        """Drop a group's output table, unless it is gone already or its name is another table's now."""
        found = self._context.catalog.find(wanted.db, wanted.gone)
        if found is not None and found[1] is not None and found[0].name == wanted.table:
            drop_children(self._context, [(found[0], found[1])])


def new_children(catalog: Catalog, asked: Sequence[Registration]) -> list[Child]:
    """The children that the catalog lacks: those of an existing super table, under a free name, that were not
    dropped meanwhile."""
    found: dict[tuple[str, str], Child] = {}
    for child in asked:
        if not isinstance(child, Child):
            continue
        key = (child.db, child.name)
        table = catalog.tables.get((child.db, child.table))
        grave = catalog.tombstones.get(key)
        dropped = grave is not None and grave.table == child.table and grave.incarnation >= child.incarnation
        if table is not None and table.kind == "super" and not dropped and catalog.find(*key) is None:
            found[key] = child
    return list(found.values())
