"""The message that goes to an address or a subscriber (seed 000, 通知消息的结构).

``{"messageId", "timestamp", "streams": [{"streamName", "events": […]}]}``: the events of one stream keep
their order, and so do those of one group. Streams come in the order of their first events.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

_encode = msgspec.json.Encoder().encode
_ENVELOPE = len('{"messageId":"","timestamp":,"streams":[]}') + 20
_STREAM = len('{"streamName":,"events":[]},')


@dataclass(frozen=True, slots=True, eq=False)
class Outgoing:
    """An event on its way to one address. ``event``: its JSON; ``keep``: never dropped, whatever happens;
    ``ticket``: handed back when it is delivered or dropped."""

    stream: str
    event: bytes
    keep: bool = False
    ticket: object = None


def compose(message_id: str, timestamp: int, events: Iterable[Outgoing], position: str = "") -> bytes:
    """The message as JSON. ``timestamp``: when the message is made, in milliseconds since the epoch.
    ``position``: for a subscriber, the position after these events."""
    streams: dict[str, list[bytes]] = {}
    for outgoing in events:
        streams.setdefault(outgoing.stream, []).append(outgoing.event)
    parts = [
        b'{"streamName":%b,"events":[%b]}' % (_encode(name), b",".join(found))
        for name, found in streams.items()
    ]
    text = b'{"messageId":%b,"timestamp":%d,"streams":[%b]' % (
        _encode(message_id),
        timestamp,
        b",".join(parts),
    )
    return text + (b',"position":%b}' % _encode(position) if position else b"}")


def take_fitting(waiting: deque[Outgoing], message_id: str, limit: int) -> list[Outgoing]:
    """Take from the front as many events as fit into a message of ``limit`` bytes; at least one."""
    taken: list[Outgoing] = []
    streams: set[str] = set()
    size = _ENVELOPE + len(message_id)
    while waiting:
        first = waiting[0]
        size += len(first.event) + 1
        if first.stream not in streams:
            streams.add(first.stream)
            size += _STREAM + len(_encode(first.stream))
        if taken and size > limit:
            break
        taken.append(waiting.popleft())
    return taken
