"""What a slot consists of between batches: its streams, tables, positions, and what waits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from millrace_core.model.schema import Table
from millrace_core.trigger.groups.family import Family
from millrace_core.trigger.rows.virtual import Feeds, Inbox
from millrace_core.trigger.slot.backlog import Backlog, Calm
from millrace_core.trigger.slot.blame import Blame, Watch
from millrace_core.trigger.slot.holdings import MOST
from millrace_core.trigger.slot.hosted import AnyStream
from millrace_core.trigger.slot.records import Refused
from millrace_core.trigger.stream.telling import Output
from millrace_core.wire import status
from millrace_core.wire.control import Offsets
from millrace_core.wire.topics import STATUS

NOBODY: Mapping[int, str] = MappingProxyType({})


class Contents:
    """``number`` of ``slots``. ``control``: offset of the last control record in force, -1 before any.
    ``most_held``: see ``slot.holdings``."""

    def __init__(self, number: int, slots: int) -> None:
        self.number = number
        self.most_held = MOST
        self.slots = slots
        self.control = -1
        self.streams: dict[int, AnyStream] = {}
        self.failed: dict[int, str] = {}
        """Streams that are set aside, or cannot be hosted at all, and why."""
        self.families: dict[str, Family] = {}
        self.tables: dict[str, Table] = {}
        """WAL topic -> the table as it is now, where it was altered under a stream."""
        self.seen: dict[str, Offsets] = {}
        self.feeds = Feeds()
        self.inbox = Inbox()
        self.unhosted: dict[int, Any] = {}
        """States of streams that take no part in this batch, as they were."""
        self.blame = Blame()
        self.refused = Refused(number == 0)
        self.backlogs: dict[str, Backlog] = {}
        self.untouched: set[int] = set()
        """Streams that have not changed since the last snapshot."""
        self.touched: set[int] = set()
        """Streams that may have changed in this batch."""
        self.calm: dict[int, Calm] = {}
        """For streams that have been asked since they were last touched."""
        self.again: Mapping[str, Offsets] = {}
        """WAL topic -> offsets before which its messages had already come, if this batch has some of them
        again."""
        self.begun: set[int] = set()
        """Streams that begin in this batch: what came before it is new to them."""
        self.fed: set[int] = set()
        """Streams for which earlier rows from the sources of their virtual tables are new."""

    def family(self, topic: str) -> Family:
        """The children of a topic's table."""
        return self.families.setdefault(topic, Family())

    def touch(self, uids: Iterable[int]) -> None:
        """Note that these streams may change."""
        for uid in uids:
            self.touched.add(uid)
            self.untouched.discard(uid)
            self.calm.pop(uid, None)

    def changing(self, stream: AnyStream) -> Watch:
        """A context for work that may change a stream; otherwise as :meth:`Blame.of`."""
        self.touch((stream.uid,))
        return self.blame.of(stream.uid)

    def table(self, topic: str, streams: list[AnyStream]) -> Table:
        """The table of these streams as it is now."""
        return self.tables.get(topic) or streams[0].definition.table


def tell(news: status.AnyStatus, out: list[Output]) -> None:
    """Send a message to the topic ``status``."""
    out.append((STATUS.name, status.key(news), status.encode(news)))
