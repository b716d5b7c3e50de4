"""From messages to rows: what a batch holds, and the rows of one table's messages in the order of judging."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import polars as pl

from millrace_core.model.expression import fields_of
from millrace_core.model.schema import Table
from millrace_core.trigger.columns import Array, Ints
from millrace_core.trigger.signals import Signal, evaluate
from millrace_core.trigger.watermark import Arrivals, Bools
from millrace_core.wire.decoded import polars_type
from millrace_core.wire.operations import Operation
from millrace_core.wire.revisions import TableDecoder, recast


@dataclass(slots=True)
class Messages:
    """Kafka messages as columns; ``timestamp`` in ms, ``topic``: the place in ``topics`` of each one's."""

    topics: list[str]
    topic: Ints
    partition: Ints
    offset: Ints
    timestamp: Ints
    key: list[bytes | None]
    value: list[bytes | None]

    @staticmethod
    def of(records: Sequence[tuple[str, int, int, int, bytes | None, bytes | None]]) -> Messages:
        """From (topic, partition, offset, timestamp, key, value) tuples."""
        topics = sorted({record[0] for record in records})
        topic = np.array([topics.index(record[0]) for record in records], dtype=np.int64)
        partition, offset, timestamp = (
            np.array([record[i] for record in records], dtype=np.int64) for i in (1, 2, 3)
        )
        keys, values = [record[4] for record in records], [record[5] for record in records]
        return Messages(topics, topic, partition, offset, timestamp, keys, values)

    def __len__(self) -> int:
        return len(self.topic)

    def topic_of(self, place: int) -> str:
        return self.topics[int(self.topic[place])]

    def named(self) -> set[str]:
        """The topics that there are messages of."""
        return {self.topics[place] for place in np.flatnonzero(np.bincount(self.topic)).tolist()}

    def times_of(self, topic: str) -> Ints:
        """When the messages of a topic were written, ms."""
        if topic not in self.topics:
            return self.timestamp[:0]
        written: Ints = self.timestamp[self.topic == self.topics.index(topic)]
        return written

    def take(self, index: Ints) -> Messages:
        places = index.tolist()
        return Messages(
            self.topics,
            self.topic[index],
            self.partition[index],
            self.offset[index],
            self.timestamp[index],
            list(map(self.key.__getitem__, places)),
            list(map(self.value.__getitem__, places)),
        )

    def by_topic(self) -> dict[str, Messages]:
        """The messages of each topic, by (partition, offset); topics in the order of their names."""
        counts = np.bincount(self.topic, minlength=len(self.topics))
        present = np.flatnonzero(counts)
        if len(present) == 1:
            return {self.topics[present[0]]: self._ordered(None)}
        sizes = np.cumsum(counts[present])[:-1]
        parts = np.split(np.argsort(self.topic, kind="stable"), sizes)
        places = {self.topics[place]: part for place, part in zip(present.tolist(), parts, strict=False)}
        return {name: self._ordered(places[name]) for name in sorted(places)}

    def _ordered(self, index: Ints | None) -> Messages:
        """The messages of one topic at these places (None: all), by (partition, offset)."""
        some = slice(None) if index is None else index
        partition, offset = self.partition[some], self.offset[some]
        same = partition[1:] == partition[:-1]
        if not ((partition[1:] > partition[:-1]) | (same & (offset[1:] > offset[:-1]))).all():
            order = np.lexsort((offset, partition))
            index = order if index is None else index[order]
        return self if index is None else self.take(index)


@dataclass(slots=True)
class TableRows:
    """Rows of some messages of one table. ``ts`` ascends within each message (the last of equal times only).

    ``message``: index of each row's message, ascending; ``bad``: messages that could not be decoded.
    ``frame``: the rows' columns, for ``pending`` signals, which read tags or the table's name too.
    ``absent``: for columns that some rows do not name, bool[rows]; such a row keeps the cell it rewrites.
    """

    ts: Ints
    message: Ints
    signals: dict[Signal, Array]
    operations: list[tuple[int, Operation]] = field(default_factory=list)
    bad: list[int] = field(default_factory=list)
    pending: list[Signal] = field(default_factory=list)
    frame: pl.DataFrame = field(default_factory=pl.DataFrame)
    absent: dict[str, Bools] = field(default_factory=dict)

    def describe(self, members: pl.DataFrame) -> None:
        """Compute the pending signals; ``members``: a row per message, with tags and ``tbname``."""
        self.signals |= evaluate(self.pending, self.frame.hstack(members[self.message]))

    def only(self, wanted: Bools) -> TableRows:
        """The rows that are wanted; nothing is pending."""
        signals = {signal: values[wanted] for signal, values in self.signals.items()}
        return TableRows(self.ts[wanted], self.message[wanted], signals, self.operations, self.bad)

    def partial(self, signals: Iterable[Signal]) -> Bools:
        """bool[rows]: those that do not name a column which one of the signals reads."""
        names = {name for signal in signals for name in fields_of(signal.expression)} & self.absent.keys()
        found: Bools = np.zeros(len(self.ts), dtype=bool)
        for name in names:
            found = found | self.absent[name]
        return found


def members_of(
    table: Table, words: Table, names: Sequence[bytes], tags: Sequence[tuple[Any, ...] | None]
) -> pl.DataFrame:
    """The tables that messages are of, message by message: ``tbname``, and tags under the names that they
    have in ``words``. ``tags``: in the order of ``table`` (None: not known)."""
    place = {tag.identity: i for i, tag in enumerate(table.tags)}
    columns = []
    for tag in words.tags:
        i = place.get(tag.identity)
        cells = [None if i is None or not known else known[i] for known in tags]
        columns.append(pl.Series(tag.name, cells, polars_type(tag.type), strict=False))
    tbname = pl.Series("tbname", [name.decode(errors="replace") for name in names], pl.String)
    return pl.DataFrame([*columns, tbname])


@lru_cache(maxsize=1024)
def _decoder(table: Table) -> TableDecoder:
    return TableDecoder(table)


def read(
    table: Table, messages: Messages, signals: Collection[Signal] = (), words: Table | None = None
) -> TableRows:
    """Decode messages of a table; ``signals``: what triggers read of a row, besides the time. They say it in
    the names that columns have in ``words``, the table before it was altered (None: as it is).

    Those that read what the row's table is wait for :meth:`TableRows.describe`.
    """
    values = [value if value is not None else b"" for value in messages.value]
    decoded = _decoder(table).decode(values, messages.partition, messages.offset)
    absent = _named_as(words or table, table, decoded.absent)
    if words is not None and words != table:
        # a column that was dropped since is not in the frame: a signal that reads it has no value
        kept = {column.identity for column in table.columns}
        columns = [column for column in words.columns if column.identity in kept]
        decoded.frame = recast(decoded.frame, table.columns, columns)
        table = words
    ts = decoded.frame[table.key.name].to_numpy()
    message = decoded.message.astype(np.int64)
    named = {tag.name for tag in table.tags} | {"tbname"}
    pending = [signal for signal in signals if fields_of(signal.expression) & named]
    frame = decoded.frame
    cells = evaluate([signal for signal in signals if signal not in pending], frame)
    bad = [item.index for item in decoded.bad]
    same = message[1:] == message[:-1]
    if (same & (ts[1:] <= ts[:-1])).any():
        order = np.lexsort((ts, message))
        ts, message = ts[order], message[order]
        if not any(column.composite_key for column in table.columns):
            last = np.append((ts[1:] != ts[:-1]) | (message[1:] != message[:-1]), True)
            order, ts, message = order[last], ts[last], message[last]
        cells = {signal: values_[order] for signal, values_ in cells.items()}
        frame = frame[order] if pending else frame
        absent = {name: mask[order] for name, mask in absent.items()}
    return TableRows(ts, message, cells, decoded.operations, bad, pending, frame, absent)


def _named_as(words: Table, table: Table, absent: dict[str, Bools]) -> dict[str, Bools]:
    """Masks by the names that the table's columns have in ``words``."""
    if not absent:
        return absent
    names = {column.identity: column.name for column in words.columns}
    masks = ((column.identity, absent.get(column.name)) for column in table.columns)
    return {names[identity]: mask for identity, mask in masks if mask is not None and identity in names}


def arrivals(rows: TableRows, group: Ints, signals: Sequence[Signal] = ()) -> tuple[Arrivals, Ints]:
    """Rows sorted by group, in order of arrival within, with these signals; and the message of each.

    ``group[m]``: the group of message ``m``, -1 for messages that do not take part.
    """
    owner = group[rows.message]
    wanted = owner >= 0
    if wanted.all() and (owner[1:] >= owner[:-1]).all():
        cells = {signal.name: rows.signals[signal] for signal in signals}
        return Arrivals(owner, rows.ts, cells), rows.message
    # sorting messages is cheaper than sorting rows
    count = np.bincount(rows.message, minlength=len(group))
    begin = np.cumsum(count) - count
    messages = np.argsort(group, kind="stable")
    messages = messages[(group[messages] >= 0) & (count[messages] > 0)]
    sizes = count[messages]
    index = np.arange(int(sizes.sum())) + np.repeat(begin[messages] - (np.cumsum(sizes) - sizes), sizes)
    cells = {signal.name: rows.signals[signal][index] for signal in signals}
    return Arrivals(owner[index], rows.ts[index], cells), rows.message[index]
