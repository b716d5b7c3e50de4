"""Virtual tables in the slots: rows of source tables are sent on, and evaluated as rows of the virtual table.

Sending (:class:`Feeds`): the slot of a source table sends the mapped columns of each of its messages to the
virtual table's WAL topic. Receiving (:class:`Inbox`): the slot of the virtual table's key takes each of them
once, and puts rows of equal time together, so that a condition over the columns of two sources sees both.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import msgspec
import numpy as np
import polars as pl

from millrace_core.errors import WireError
from millrace_core.model.schema import Table
from millrace_core.trigger.groups.watermark import Bools
from millrace_core.trigger.rows.intake import Messages, of_each
from millrace_core.wire import virtual
from millrace_core.wire.control import (
    AnyControl,
    ChangeTable,
    DropStream,
    DropTable,
    KnowOrigins,
    Offsets,
    StartStream,
    StopStream,
)
from millrace_core.wire.operations import OPERATION_MARK, Delete, Drop, Operation, Register, encode_operation
from millrace_core.wire.rows.decoded import Decoded
from millrace_core.wire.rows.decoder import encode_rows
from millrace_core.wire.rows.revisions import TableDecoder
from millrace_core.wire.topics import wal_topic
from millrace_core.wire.virtual import Forwarded, Link, Origin

MOST_KEPT = 1_000
"""How many rows of one virtual table are kept, the newest ones, so that rows of equal time that come later
from another source can join them. If a row's time is older, it is evaluated with the columns that came last,
as if the others were NULL."""

Message = tuple[str, bytes, bytes]
"""Topic, key, value."""


class Feed(msgspec.Struct, array_like=True):
    """What one stream on a virtual table takes in. ``sources``: by WAL topic; ``since``: where the links
    begin in a topic; ``live_from``: from where on the stream evaluates rows, after its last START."""

    table: Table
    running: bool = True
    sources: dict[str, Table] = {}
    since: dict[str, Offsets] = {}
    live_from: dict[str, Offsets] = {}
    links: list[Link] = []


class Feeds:
    """The sources of virtual tables in this slot, by the streams that trigger on those tables."""

    def __init__(self) -> None:
        self.of: dict[int, Feed] = {}
        self._index: dict[str, dict[bytes, list[tuple[int, Link]]]] | None = None

    # ------------------------------------------------------------------ control

    def begun_by(self, record: AnyControl, slot: int) -> tuple[int, ...]:
        """The streams whose sources begin, or go on, with a record that is to be applied in this slot."""
        match record:
            case KnowOrigins(stream=uid) if record.slot == slot:
                return (uid,)
            case StartStream(uid=uid) if uid in self.of and not self.of[uid].running:
                return (uid,)
            case _:
                return ()

    def apply(self, record: AnyControl, slot: int) -> None:
        """Take in a control record, in this slot."""
        match record:
            case KnowOrigins() if record.slot == slot:
                self._know(record)
            case StopStream(uid=uid) if uid in self.of:
                self.of[uid].running = False
            case StartStream(uid=uid, origins=origins) if uid in self.of:
                self.of[uid].running = True
                self.of[uid].live_from = self.of[uid].live_from | origins
            case DropStream(uid=uid) if uid in self.of:
                del self.of[uid]
                self._index = None
            case ChangeTable(table=table):
                self._change(table)
            case DropTable(uid=uid):
                self._drop_table(uid)
            case _:
                pass  # about streams that do not trigger on a virtual table, or about sources in other slots

    def _know(self, record: KnowOrigins) -> None:
        """Take in more sources of a stream; this replaces what was known of the same sources."""
        known = self.of.get(record.stream)
        if known is None or known.table.uid != record.table.uid:
            known = self.of[record.stream] = Feed(record.table)
        known.sources = known.sources | {wal_topic(t.db, t.name): t for t in record.sources}
        known.since = known.since | record.live_from
        known.live_from = known.live_from | record.live_from
        named = {(link.topic, link.source, link.target): link for link in (*known.links, *record.links)}
        known.links = list(named.values())
        self._index = None

    def _change(self, table: Table) -> None:
        """A source table's definition changed: its messages are decoded by it from here on."""
        topic = wal_topic(table.db, table.name)
        for feed in self.of.values():
            if topic in feed.sources and feed.sources[topic].uid == table.uid:
                feed.sources = feed.sources | {topic: table}

    def _drop_table(self, uid: int) -> None:
        """A source table, or the virtual table, is gone: its columns are NULL from now on."""
        for stream, feed in list(self.of.items()):
            if feed.table.uid == uid:
                del self.of[stream]
                continue
            gone = {topic for topic, table in feed.sources.items() if table.uid == uid}
            feed.sources = {topic: table for topic, table in feed.sources.items() if topic not in gone}
            feed.links = [link for link in feed.links if link.topic not in gone]
        self._index = None

    def _end(self, origin: Origin) -> None:
        """A child table that rows were taken from is gone; a new one of the same name does not take its
        place."""
        gone = (origin.topic, origin.key)
        for feed in self.of.values():
            if origin.offset >= feed.since.get(origin.topic, {}).get(origin.partition, 0):
                feed.links = [link for link in feed.links if (link.topic, link.source) != gone]
        self._index = None

    def _links(self, topic: str) -> dict[bytes, list[tuple[int, Link]]]:
        """By the source's key: the streams that take in its rows, each with its link."""
        if self._index is None:
            self._index = {}
            for stream, feed in self.of.items():
                for link in feed.links:
                    by_key = self._index.setdefault(link.topic, {})
                    by_key.setdefault(link.source.encode(), []).append((stream, link))
        return self._index.get(topic, {})

    # ------------------------------------------------------------------ rows

    def forward(
        self, topic: str, messages: Messages, again: Offsets | None = None, begun: Collection[int] = ()
    ) -> list[Message]:
        """What to send for these messages of a table, in their order. ``again``: messages before these
        offsets have come before; they are sent only to the streams in ``begun``."""
        links = self._links(topic)
        if not links:
            return []
        table = self._table(topic)
        own = table.name.encode()
        names = [own if key is None and table.kind == "normal" else key for key in messages.keys]
        keys = of_each(names, messages.key)
        places = [place for place, key in enumerate(keys) if key in links]
        decoded = TableDecoder(table).decode(
            [messages.value[place] or b"" for place in places],
            messages.partition[places],
            messages.offset[places],
        )
        operations: dict[int, list[Operation]] = {}
        for at, operation in decoded.operations:
            operations.setdefault(at, []).append(operation)
        begins = np.searchsorted(decoded.message, np.arange(len(places) + 1))
        sent: list[Message] = []
        for at, place in enumerate(places):
            key, partition, offset = keys[place] or b"", messages.partition[place], messages.offset[place]
            origin = Origin(topic, table.uid, key.decode(), int(partition), int(offset))
            taken = begun if offset < (again or {}).get(int(partition), 0) else self.of
            for operation in operations.get(at, ()):
                if _ends(operation):
                    self._end(origin)
                elif isinstance(operation, Delete):
                    sent += self._send(origin, (operation.first, operation.last), taken)
            rows = slice(int(begins[at]), int(begins[at + 1]))
            if rows.start < rows.stop:
                sent += self._send(origin, (table, decoded, rows), taken)
        return sent

    def _table(self, topic: str) -> Table:
        return next(feed.sources[topic] for feed in self.of.values() if topic in feed.sources)

    def _send(
        self, origin: Origin, found: tuple[int, int] | tuple[Table, Decoded, slice], taken: Collection[int]
    ) -> list[Message]:
        """Send what a message holds, rows or a deletion, to each virtual table that takes in its source.
        ``taken``: the streams to which it may go."""
        meant: dict[tuple[str, str], list[int]] = {}
        how: dict[tuple[str, str], tuple[str, Link]] = {}
        for stream, link in self._links(origin.topic).get(origin.key.encode(), ()):
            feed = self.of[stream]
            floor = feed.live_from.get(origin.topic, {}).get(origin.partition, 0)
            if feed.running and origin.offset >= floor and stream in taken:
                target = (wal_topic(feed.table.db, feed.table.name), link.target)
                meant.setdefault(target, []).append(stream)
                how[target] = (feed.table.key.name, link)
        sent: list[Message] = []
        for target, streams in meant.items():
            message = Forwarded(origin, tuple(sorted(streams)))
            if len(found) == 2:
                message = msgspec.structs.replace(message, deleted=found)
            else:
                rows = msgspec.Raw(encode_rows(_mapped(*found, *how[target])))
                message = msgspec.structs.replace(message, rows=rows)
            sent.append((target[0], target[1].encode(), virtual.encode(message)))
        return sent

    # ------------------------------------------------------------------ state

    def dump(self) -> list[Any]:
        return [self.of]

    def load(self, data: list[Any]) -> None:
        self.of = msgspec.convert(data[0], dict[int, Feed], strict=False)
        self._index = None


def _ends(operation: Operation) -> bool:
    """Whether from here on another table has the key."""
    return isinstance(operation, Drop) or (isinstance(operation, Register) and operation.incarnation > 0)


def _mapped(table: Table, decoded: Decoded, rows: slice, key: str, link: Link) -> list[dict[str, object]]:
    """The rows with the virtual table's column names, without the cells that they do not name."""
    part = decoded.frame[rows]
    names = {column.identity: column.name for column in table.columns}
    wanted = [(names[source], own) for source, own in link.columns if source in names]
    cells = [part[table.key.name].to_list(), *(_plain(part[source]) for source, _ in wanted)]
    found = [
        dict(zip([key, *(own for _, own in wanted)], row, strict=True)) for row in zip(*cells, strict=True)
    ]
    for source, own in wanted:
        missing = decoded.absent.get(source)
        if missing is not None:
            for at in np.flatnonzero(missing[rows]).tolist():
                del found[at][own]
    return found


def _plain(cells: pl.Series) -> list[Any]:
    """Values as JSON has them: bytes that are not text (Arrow may bring such) lose what JSON cannot hold."""
    if cells.dtype == pl.Binary:
        return [None if cell is None else cell.decode(errors="replace") for cell in cells.to_list()]
    return cells.to_list()


class Inbox:
    """What has come from the sources of virtual tables, by (topic, key) of the virtual table.

    ``taken``: the last offset from which rows came, for each source (topic, partition, key): after a restart
    of the sender a message may come again. ``behind``: the same for single streams (by uid) that have not
    come that far: a stream that begins is sent earlier rows, which the others have already taken in.
    ``kept``: rows by their time, the newest :data:`MOST_KEPT`.
    """

    def __init__(self) -> None:
        self.taken: dict[str, dict[str, dict[str, int]]] = {}
        self.behind: dict[str, dict[str, dict[str, dict[int, int]]]] = {}
        self.kept: dict[str, dict[str, dict[int, dict[str, Any]]]] = {}

    def open(self, table: Table, messages: Messages, merge: bool) -> tuple[Messages, dict[int, Bools]]:
        """The messages that have not come before, with their rows written as the virtual table's own, and for
        each stream which messages are meant for it.

        ``merge``: rows also hold what other sources gave before for the same time.
        """
        topic = wal_topic(table.db, table.name)
        places: list[int] = []
        values: list[bytes | None] = []
        meant: dict[int, list[int]] = {}
        names = [(key or table.name.encode()).decode(errors="replace") for key in messages.keys]
        for place, (key, value) in enumerate(zip(messages.key.tolist(), messages.value, strict=True)):
            name = names[key]
            if value is not None and value[:1] == OPERATION_MARK:
                places.append(place)  # from the gateway: a child of a virtual super table ends
                values.append(value)
                continue
            try:
                found = virtual.decode(value or b"")
            except WireError:
                continue  # not from a slot: calc-svc makes a dead letter of it
            streams = self._new_to(topic, name, found)
            if streams is None:
                continue
            for stream in streams:
                meant.setdefault(stream, []).append(len(places))
            places.append(place)
            values.append(self._value(topic, name, table, found, merge))
        kept = messages.take(np.array(places, dtype=np.int64))
        kept.value = values
        masks = {stream: np.zeros(len(kept), dtype=bool) for stream in meant}
        for stream, mine in meant.items():
            masks[stream][mine] = True
        return kept, masks

    def _new_to(self, topic: str, name: str, found: Forwarded) -> list[int] | None:
        """The streams that a message is for and has not reached before; None: the message has come before."""
        source, offset = found.origin.source, found.origin.offset
        taken = self.taken.setdefault(topic, {}).setdefault(name, {})
        last = taken.get(source, -1)
        behind = self.behind.get(topic, {}).get(name, {}).get(source, {})
        streams = [stream for stream in found.streams if offset > behind.get(stream, last)]
        if offset <= last and not streams:
            return None
        taken[source] = max(last, offset)
        for stream in streams:
            if stream in behind and offset < last:
                behind[stream] = offset
            else:
                behind.pop(stream, None)
        return streams

    def begin(self, topic: str, stream: int, origins: Mapping[str, Offsets]) -> None:
        """A stream begins to take in rows of a virtual table, from these offsets of its sources on."""
        for name, taken in self.taken.get(topic, {}).items():
            for source, last in taken.items():
                begin = _begin_of(source, origins)
                if begin is not None and begin <= last:
                    sources = self.behind.setdefault(topic, {}).setdefault(name, {})
                    sources.setdefault(source, {})[stream] = begin - 1

    def leave(self, stream: int) -> None:
        """The stream is gone."""
        for names in self.behind.values():
            for sources in names.values():
                for behind in sources.values():
                    behind.pop(stream, None)

    def _value(self, topic: str, name: str, table: Table, found: Forwarded, merge: bool) -> bytes:
        """The value that the message would have in the topic of a table that is not virtual."""
        if found.deleted is not None:
            return encode_operation(Delete(*found.deleted))
        return self._merged(topic, name, table, found) if merge else bytes(found.rows)

    def _merged(self, topic: str, name: str, table: Table, found: Forwarded) -> bytes:
        kept = self.kept.setdefault(topic, {}).setdefault(name, {})
        given = msgspec.json.decode(found.rows)
        rows: list[dict[str, object]] = []
        for row in given if isinstance(given, list) else [given]:
            whole = kept.setdefault(row[table.key.name], {})
            whole.update(row)
            rows.append(dict(whole))
        for ts in sorted(kept)[: max(len(kept) - MOST_KEPT, 0)]:
            del kept[ts]
        return encode_rows(rows)

    def forget(self, topic: str) -> None:
        """The virtual table is gone."""
        self.taken.pop(topic, None)
        self.behind.pop(topic, None)
        self.kept.pop(topic, None)

    def dump(self) -> list[Any]:
        behind = {
            topic: {
                name: {source: of for source, of in sources.items() if of} for name, sources in names.items()
            }
            for topic, names in self.behind.items()
        }
        return [self.taken, self.kept, behind]

    def load(self, data: list[Any]) -> None:
        self.taken, self.kept, *behind = data  # an older state has no ``behind``
        self.behind = behind[0] if behind else {}


def _begin_of(source: str, origins: Mapping[str, Offsets]) -> int | None:
    """Where a stream with these origins begins in a source (:attr:`Origin.source`); None: it does not read
    it."""
    topic, _, partition, _ = source.split("/", 3)
    return origins[topic].get(int(partition), 0) if topic in origins else None
