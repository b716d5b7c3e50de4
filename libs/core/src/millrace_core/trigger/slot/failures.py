"""Streams of a slot that fail: they are set aside, and later marked as well again."""

from __future__ import annotations

from millrace_core.trigger.slot.contents import Contents, tell
from millrace_core.trigger.slot.hosted import AnyStream
from millrace_core.trigger.stream.telling import Output
from millrace_core.wire import control, status


class Failures:
    """A stream that fails stops where it is, and remembers where."""

    def __init__(self, contents: Contents) -> None:
        self.contents = contents

    def set_aside(self, uid: int, cause: str, out: list[Output]) -> None:
        """The stream takes no part from here on, as if it had been stopped where it is."""
        slot = self.contents
        stream = slot.streams.get(uid)
        if stream is not None and stream.life.running:
            with slot.blame.of(uid):
                self.halt(stream)
                stream.take_outgoing()
        slot.feeds.apply(control.StopStream(uid), slot.number)
        if slot.failed.get(uid) != cause:
            slot.failed[uid] = cause
            slot.refused.remarks.append(f"stream {uid} failed: {cause}")
            tell(status.StreamFailure(uid, cause, slot.number), out)

    def halt(self, stream: AnyStream) -> None:
        """The stream stops where it is; what it has put off comes after that place."""
        slot = self.contents
        topic, seen = stream.definition.topic, None
        if topic in slot.backlogs:
            seen = slot.backlogs[topic].seen_by(stream.uid)
            slot.backlogs[topic].take({stream.uid: None})
        seen = slot.seen.get(topic, {}) if seen is None else seen
        stream.stop(seen, stream.life.origins, slot.inbox.taken.get(topic, {}))

    def make_well(self, uid: int, out: list[Output]) -> None:
        """A stream begins anew, or is gone: its failure is over."""
        if uid in self.contents.failed:
            del self.contents.failed[uid]
            tell(status.StreamFailure(uid, "", self.contents.number), out)
