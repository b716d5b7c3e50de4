"""Which WAL topics the trigger query does not need: those of output tables that no stream triggers on.

A thousand streams have a thousand output tables. Each topic that the query reads costs something in every
micro-batch, whether anything is in it or not. A topic may be left out as long as no stream wants it. If a
stream wants it later, it is read from where the stream begins: what came before does not concern that stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby, takewhile
from re import escape

from millrace_core.wire import control
from millrace_core.wire.control import Offsets
from millrace_core.wire.topics import wal_topic


class TopicUse:
    """What streams read and write, according to the control records."""

    def __init__(self) -> None:
        self._wanted: dict[int, dict[str, Offsets]] = {}
        self._tables: dict[int, str] = {}
        """The topics of streams' trigger tables."""
        self._outputs: set[str] = set()

    def apply(self, record: control.AnyControl) -> None:
        """Take in a control record."""
        match record:
            case control.DefineStream(spec=spec, live_from=live_from, origins=origins):
                wanted = self._wanted.setdefault(spec.uid, {})
                if spec.source is not None:
                    topic = self._tables[spec.uid] = wal_topic(spec.source.table.db, spec.source.table.name)
                    wanted[topic] = _least(wanted.get(topic), live_from)
                self._want(spec.uid, origins)
                if spec.output is not None:
                    self._outputs.add(wal_topic(spec.output.db, spec.output.table))
            case control.KnowOrigins(stream=uid, live_from=origins):
                self._want(uid, origins)
            case control.DropStream(uid=uid):
                self._wanted.pop(uid, None)
                self._tables.pop(uid, None)
            case control.DropTable(topic=topic):
                self._outputs.discard(topic)
                for topics in self._wanted.values():  # a table that is created again has other rows
                    topics.pop(topic, None)
            case _:
                pass  # a stream that stops keeps its place in its table's topic

    def begins(self, record: control.AnyControl) -> dict[str, Offsets]:
        """For a record with which a stream begins or goes on: which topics it wants, and from which offsets
        on."""
        match record:
            case control.DefineStream(spec=spec, live_from=live_from, origins=origins):
                if spec.source is None:
                    return dict(origins)
                return {wal_topic(spec.source.table.db, spec.source.table.name): live_from} | origins
            case control.StartStream(uid=uid, live_from=live_from, origins=origins) if uid in self._tables:
                return {self._tables[uid]: live_from} | origins
            case control.KnowOrigins(live_from=origins):
                return dict(origins)
            case _:
                return {}

    def _want(self, uid: int, origins: dict[str, Offsets]) -> None:
        wanted = self._wanted.setdefault(uid, {})
        for topic, offsets in origins.items():
            wanted[topic] = _least(wanted.get(topic), offsets)

    @property
    def wanted(self) -> dict[str, Offsets]:
        """Topic -> partition -> the first offset that any existing stream may need."""
        found: dict[str, Offsets] = {}
        for topics in self._wanted.values():
            for topic, offsets in topics.items():
                found[topic] = _least(found.get(topic), offsets)
        return found

    def streams_of(self, topic: str, partition: int, end: int) -> tuple[int, ...]:
        """The streams that wanted offsets of this partition before ``end``."""
        return tuple(
            uid
            for uid, topics in self._wanted.items()
            if topic in topics and topics[topic].get(partition, 0) < end
        )

    @property
    def needless(self) -> frozenset[str]:
        """The topics of output tables that no stream wants."""
        return frozenset(self._outputs - {topic for topics in self._wanted.values() for topic in topics})


def _least(known: Offsets | None, more: Offsets) -> Offsets:
    """The lower offset of each partition. If only one side has the partition, the other side counts as 0, its
    beginning."""
    if known is None:
        return dict(more)
    return {p: min(known.get(p, 0), more.get(p, 0)) for p in known.keys() | more.keys()}


def one_of(words: Iterable[str]) -> str:
    """A regular expression (Java's and Python's) that matches these words and no others. Matching takes as
    many steps as a word has letters, however many words there are: common beginnings are written once."""
    return _branch(sorted(set(words)))


def _branch(words: list[str]) -> str:
    # what the first and the last word of a sorted list begin with alike, all words begin with
    alike = takewhile(lambda pair: pair[0] == pair[1], zip(words[0], words[-1], strict=False))
    begin = "".join(letter for letter, _ in alike)
    rest = [word[len(begin) :] for word in words]
    if not any(rest):
        return escape(begin)
    ways = "|".join(_ways([word for word in rest if word]))
    return f"{escape(begin)}(?:{ways}){'' if all(rest) else '?'}"


def _ways(words: list[str]) -> Iterator[str]:
    for _, alike in groupby(words, key=lambda word: word[0]):
        yield _branch(list(alike))
