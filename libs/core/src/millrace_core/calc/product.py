"""What a job of one stream gives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from millrace_core.errors import MillraceError
from millrace_core.wire import notices
from millrace_core.wire.message import Message
from millrace_core.wire.notices import NoticeText, TextBatch
from millrace_core.wire.registrations import OutputGone
from millrace_core.wire.status import StreamFailure
from millrace_core.wire.topics import NOTIFICATIONS


@dataclass(slots=True)
class Product:
    """What a stream's job gives: rows to write, then notifications and perhaps a change of status.

    ``waits``: the job needs something that may still come (rows, an output table, the broker). It then gives
    nothing else and is to be done again. That is not a failure, however long it takes.
    """

    stream: int
    messages: list[Message] = field(default_factory=list)
    notices: list[NoticeText] = field(default_factory=list)
    status: StreamFailure | None = None
    outputs_gone: list[OutputGone] = field(default_factory=list)
    """What to tell the gateway once the messages are written."""
    counts: Counter[str] = field(default_factory=Counter)
    """Counts of what was done, by the counters of ``wire.counters``."""
    known: bool = True
    """Whether the stream exists."""
    waits: MillraceError | None = None


def notice_messages(stream: int, told: Sequence[NoticeText]) -> list[Message]:
    """One message per group, in order."""
    by_group: dict[str, list[NoticeText]] = {}
    for notice in told:
        by_group.setdefault(notice.group, []).append(notice)
    return [
        Message(NOTIFICATIONS.name, f"{stream}/{group}".encode(), notices.encode(TextBatch(part, stream)))
        for group, part in by_group.items()
    ]
