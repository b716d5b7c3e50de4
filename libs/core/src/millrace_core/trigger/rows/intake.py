"""From messages to rows: what a batch holds, and the rows of one table's messages as they are evaluated."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
import polars as pl

from millrace_core.model.expression import fields_of
from millrace_core.model.schema import Table
from millrace_core.trigger.groups.columns import Array, Ints
from millrace_core.trigger.groups.watermark import Arrivals, Bools
from millrace_core.trigger.rows.signals import Signal, evaluate
from millrace_core.wire.operations import Operation
from millrace_core.wire.rows.decoded import polars_type
from millrace_core.wire.rows.revisions import TableDecoder, recast

Name = TypeVar("Name", str, bytes | None)
Cell = TypeVar("Cell")
MANY_KEYS = 64
"""Up to this many keys are carried along even if they no longer occur: leaving them out takes longer."""


def distinct(names: Sequence[Name]) -> tuple[list[Name], Ints]:
    """The distinct names, in the order of their first occurrence, and for each name its place among these."""
    found = list(dict.fromkeys(names))
    places = {name: place for place, name in enumerate(found)}
    return found, np.fromiter(map(places.__getitem__, names), dtype=np.int64, count=len(names))


def of_each(names: Sequence[Cell], places: Ints) -> list[Cell]:
    """The inverse of :func:`distinct`: the name at each of these places."""
    return list(map(names.__getitem__, places.tolist()))


def present(places: Ints) -> Ints:
    """Which places occur, ascending."""
    found: Ints = np.flatnonzero(np.bincount(places))
    return found


def came_before(messages: Messages, ends: Mapping[int, int]) -> Bools:
    """bool[messages]: those that lie before these offsets (by partition) of their topic."""
    found = np.zeros(len(messages), dtype=bool)
    for partition, end in ends.items():
        found |= (messages.partition == partition) & (messages.offset < end)
    return found


@dataclass(slots=True)
class Messages:
    """Kafka messages as columns. ``timestamp`` is in ms; ``topic`` and ``key`` are the places of each
    message's topic and key in ``topics`` and ``keys``. These list each value once, and some of them may not
    occur."""

    topics: list[str]
    topic: Ints
    keys: list[bytes | None]
    key: Ints
    partition: Ints
    offset: Ints
    timestamp: Ints
    value: list[bytes | None]

    @staticmethod
    def of(records: Sequence[tuple[str, int, int, int, bytes | None, bytes | None]]) -> Messages:
        """From (topic, partition, offset, timestamp, key, value) tuples."""
        topics, topic = distinct([record[0] for record in records])
        keys, key = distinct([record[4] for record in records])
        partition, offset, timestamp = (
            np.array([record[i] for record in records], dtype=np.int64) for i in (1, 2, 3)
        )
        return Messages(topics, topic, keys, key, partition, offset, timestamp, [one[5] for one in records])

    def __len__(self) -> int:
        return len(self.topic)

    def topic_of(self, place: int) -> str:
        return self.topics[int(self.topic[place])]

    def key_of(self, place: int) -> bytes | None:
        return self.keys[int(self.key[place])]

    def keyed(self, keys: Container[Any]) -> Bools:
        """bool[messages]: those with one of these keys."""
        return np.array([key in keys for key in self.keys], dtype=bool)[self.key]

    def named(self) -> set[str]:
        """The topics that have messages here."""
        return {self.topics[place] for place in present(self.topic).tolist()}

    def times_of(self, topic: str) -> Ints:
        """When the messages of a topic were written, ms."""
        if topic not in self.topics:
            return self.timestamp[:0]
        written: Ints = self.timestamp[self.topic == self.topics.index(topic)]
        return written

    def take(self, index: Ints) -> Messages:
        keys, key = self.keys, self.key[index]
        if len(keys) > MANY_KEYS and len(keys) > 2 * len(key):
            kept, key = np.unique(key, return_inverse=True)
            keys = [keys[place] for place in kept.tolist()]
        return Messages(
            self.topics,
            self.topic[index],
            keys,
            key,
            self.partition[index],
            self.offset[index],
            self.timestamp[index],
            list(map(self.value.__getitem__, index.tolist())),
        )

    def only(self, wanted: Bools) -> Messages:
        """The messages that are wanted; nothing is copied if all are."""
        return self if wanted.all() else self.take(np.flatnonzero(wanted))

    def by_topic(self) -> dict[str, Messages]:
        """The messages of each topic, by (partition, offset); topics in the order of their names."""
        counts = np.bincount(self.topic, minlength=len(self.topics))
        some = np.flatnonzero(counts)
        if len(some) == 1:
            return {self.topics[some[0]]: self._ordered(None)}
        sizes = np.cumsum(counts[some])[:-1]
        parts = np.split(np.argsort(self.topic, kind="stable"), sizes)
        places = {self.topics[place]: part for place, part in zip(some.tolist(), parts, strict=False)}
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
    """Rows of some messages of one table. ``ts`` ascends within each message (of equal times only the last
    one is kept).

    ``message``: index of each row's message, ascending; ``bad``: messages that could not be decoded.
    ``frame``: the rows' columns, for ``pending`` signals, which read tags or the table's name too.
    ``absent``: for columns that some rows do not name, bool[rows]; such a row keeps the stored cell.
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
        absent = {name: mask[wanted] for name, mask in self.absent.items()}
        return TableRows(
            self.ts[wanted], self.message[wanted], signals, self.operations, self.bad, absent=absent
        )

    def partial(self, signals: Iterable[Signal]) -> Bools:
        """bool[rows]: those that do not name some column that one of the signals reads."""
        names = {name for signal in signals for name in fields_of(signal.expression)} & self.absent.keys()
        found: Bools = np.zeros(len(self.ts), dtype=bool)
        for name in names:
            found = found | self.absent[name]
        return found


def members_of(
    table: Table, words: Table, names: Sequence[bytes], tags: Sequence[tuple[Any, ...] | None]
) -> pl.DataFrame:
    """The tables that messages belong to, message by message: ``tbname``, and the tags under their names in
    ``words``. ``tags``: in the order of ``table`` (None: not known)."""
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
    """Decode messages of a table. ``signals``: what triggers read from a row, besides the time. They use the
    column names of ``words``, the table before it was altered (None: it was not).

    Signals that read tags or the name of the row's table wait for :meth:`TableRows.describe`.
    """
    decoded = _decoder(table).decode(messages.value, messages.partition, messages.offset)
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
        if not table.has_composite_key:
            last = np.append((ts[1:] != ts[:-1]) | (message[1:] != message[:-1]), True)
            order, ts, message = order[last], ts[last], message[last]
        cells = {signal: values_[order] for signal, values_ in cells.items()}
        frame = frame[order] if pending else frame
        absent = {name: mask[order] for name, mask in absent.items()}
    return TableRows(ts, message, cells, decoded.operations, bad, pending, frame, absent)


def _named_as(words: Table, table: Table, absent: dict[str, Bools]) -> dict[str, Bools]:
    """The masks under the names that the table's columns have in ``words``."""
    if not absent:
        return absent
    names = {column.identity: column.name for column in words.columns}
    masks = ((column.identity, absent.get(column.name)) for column in table.columns)
    return {names[identity]: mask for identity, mask in masks if mask is not None and identity in names}


def arrivals(rows: TableRows, group: Ints, signals: Sequence[Signal] = ()) -> tuple[Arrivals, Ints]:
    """Rows sorted by group, in order of arrival within each, with these signals; and the place of each among
    ``rows``.

    ``group[m]``: the group of message ``m``, -1 for messages that do not take part.
    """
    owner = group[rows.message]
    wanted = owner >= 0
    if wanted.all() and (owner[1:] >= owner[:-1]).all():
        cells = {signal.name: rows.signals[signal] for signal in signals}
        return Arrivals(owner, rows.ts, cells), np.arange(len(owner))
    # sorting messages is cheaper than sorting rows
    count = np.bincount(rows.message, minlength=len(group))
    begin = np.cumsum(count) - count
    messages = np.argsort(group, kind="stable")
    messages = messages[(group[messages] >= 0) & (count[messages] > 0)]
    sizes = count[messages]
    index = np.arange(int(sizes.sum())) + np.repeat(begin[messages] - (np.cumsum(sizes) - sizes), sizes)
    cells = {signal.name: rows.signals[signal][index] for signal in signals}
    return Arrivals(owner[index], rows.ts[index], cells), index
