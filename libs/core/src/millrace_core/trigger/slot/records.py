"""Control records and other internal messages: which streams they are about, and those that cannot be used.

A slot must get past whatever lies in the topics ``control``, ``clock``, ``regroup`` and ``handover``: a
message that cannot be decoded is counted, gets a remark, and becomes a dead letter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeVar

from millrace_core.errors import ErrorCode, MillraceError, WireError
from millrace_core.trigger.rows.intake import Messages
from millrace_core.trigger.slot.hosted import AnyStream
from millrace_core.trigger.stream.telling import Output
from millrace_core.wire import control, dead
from millrace_core.wire.reading import Format
from millrace_core.wire.topics import DEAD_LETTERS, REGROUP

T = TypeVar("T")


class Refused:
    """``totals``: messages passed over so far, by cause. For this batch alone: ``remarks``, one sentence for
    each such message, and ``letters``, the dead letters.

    ``counts``: whether this slot is the one that counts messages that go to all slots.
    """

    def __init__(self, counts: bool) -> None:
        self.counts = counts
        self.totals: dict[str, int] = {}
        self.changed = False
        self.remarks: list[str] = []
        self.letters: list[Output] = []

    def begin(self) -> None:
        """A new batch."""
        self.changed, self.remarks, self.letters = False, [], []

    def decoded(self, messages: Messages, form: Format[T]) -> Iterator[tuple[int, T]]:
        """Place and decoded content of each message of a topic; deletions are left out."""
        for place, value in enumerate(messages.value):
            if form.deletes(value):
                continue
            try:
                found = form.read(messages.key_of(place), value)
            except WireError as error:
                self.pass_over("undecodable", messages, place, error)
                continue
            yield place, found

    def pass_over(self, why: str, messages: Messages, place: int, error: Exception) -> None:
        """``why``: ``undecodable``, or ``refused`` for a message that asks for something impossible."""
        topic = messages.topic_of(place)
        if not self.counts and topic != REGROUP.name:
            return
        cause = f"{why}_{topic}"
        self.totals[cause] = self.totals.get(cause, 0) + 1
        self.changed = True
        partition, offset = int(messages.partition[place]), int(messages.offset[place])
        if not isinstance(error, MillraceError):
            error = MillraceError(ErrorCode.INTERNAL, f"{type(error).__name__}: {error}")
        letter = dead.letter(
            topic, partition, offset, messages.key_of(place), messages.value[place], error, "trigger-svc"
        )
        at = f"partition {partition}, offset {offset}"
        self.remarks.append(f"a message in the topic {topic} is {why} ({at}): {letter.detail}")
        self.letters.append((DEAD_LETTERS.name, topic.encode(), dead.encode(letter)))


def about(record: control.AnyControl, streams: Mapping[int, AnyStream]) -> list[int]:
    """The streams of a slot (by uid) that a record is about."""
    match record:
        case control.DefineStream(spec=spec):
            return [spec.uid]
        case control.KnowOrigins(stream=uid):
            return [uid]
        case control.ChangeTable(table=table):
            return [uid for uid, stream in streams.items() if stream.definition.table.uid == table.uid]
        case control.DropTable(uid=gone):
            return [uid for uid, stream in streams.items() if stream.definition.table.uid == gone]
        case control.KnowChildren(children=children):
            names = {(child.db, child.table) for child in children}
            found = {uid: stream.definition.table for uid, stream in streams.items()}
            return [uid for uid, table in found.items() if (table.db, table.name) in names]
        case _:
            return [record.uid]
