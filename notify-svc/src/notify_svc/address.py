"""One address: its connection, driven by the state machine of ``millrace_core.notice.delivery``."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass
from typing import Literal

import aiohttp
from structlog.typing import FilteringBoundLogger

from millrace_core.model.address import shown
from millrace_core.notice.delivery import Delivery
from millrace_core.notice.message import Outgoing
from millrace_core.notice.progress import Partition, Ticket
from millrace_core.timeline.precision import milliseconds
from notify_svc import metrics
from notify_svc.network import Forbidden
from notify_svc.settings import NotifySettings
from notify_svc.traces import TracedNotices

Cause = Literal["bad_address", "forbidden", "refused", "tls", "handshake", "closed", "silent", "idle", "full"]
"""Why there is no connection, in this order: the address is not a WebSocket URL, it lies where notifications
may not go, nothing listens there, its certificate is not trusted, it answered without a WebSocket, it closed
the connection, it did not answer in time, or the connection was no longer needed. ``full``: too many events
waited for it."""

Told = Literal["bad_address", "forbidden", "unreached", "full"]
REASONS: dict[Told, str] = {
    "bad_address": "is not a WebSocket address",
    "forbidden": "is in a network that notifications may not be sent to",
    "unreached": "cannot be reached",
    "full": "takes its events too slowly",
}


def told(cause: Cause) -> Told:
    """A cause as users see it: whoever names an address must learn nothing about what listens there. Logs and
    metrics have the cause itself."""
    return cause if cause in ("bad_address", "forbidden", "full") else "unreached"


Lane = tuple[int, Partition]
"""A stream (its uid) and the partition that its events are in: the unit that is paused."""


@dataclass(frozen=True, slots=True, eq=False)
class Mark:
    """The ticket of the events of one record. ``written``: when the record was written, in seconds since the
    epoch; ``traced``: its trace, if it is traced."""

    record: Ticket
    stream: int
    written: float
    traced: TracedNotices | None = None

    @property
    def lane(self) -> Lane:
        return self.stream, self.record.place


Finished = Callable[[list[Outgoing], Cause | None], None]
"""Called for events that are done: delivered (None), or dropped for a cause."""

_CLOSING = 1.0
"""Seconds for a connection's closing handshake."""


class Address:
    """Delivers events to one URL, in order. All in one event loop.

    A message counts as delivered when the receiver has answered the ping that was sent right after it: every
    WebSocket library sends that answer by itself once it has read the message.
    """

    def __init__(
        self,
        url: str,
        session: aiohttp.ClientSession,
        settings: NotifySettings,
        finished: Finished,
        log: FilteringBoundLogger,
    ) -> None:
        self._url = url
        self._session = session
        self._settings = settings
        self._finished = finished
        self._log = log
        self._delivery = Delivery(settings.policy)
        self._wake = asyncio.Event()
        self._cause: Cause = "refused"
        self.kept: Counter[Lane] = Counter()
        """How many events that must not be lost wait here."""

    @property
    def failing(self) -> bool:
        return self._delivery.failing

    @property
    def stuck(self) -> bool:
        return self._delivery.stuck

    @property
    def waiting(self) -> int:
        return self._delivery.waiting

    @property
    def reason(self) -> str:
        """Why it is stuck, for people."""
        cause = "full" if self._delivery.slow else told(self._cause)
        return f"{shown(self._url)} {REASONS[cause]}"

    def oldest(self, lane: Lane) -> int | None:
        """The offset of the oldest event of the lane that must not be lost and waits here."""
        marks = ((event.keep, event.ticket) for event in self._delivery.undelivered())
        found = (m.record.offset for keep, m in marks if keep and isinstance(m, Mark) and m.lane == lane)
        return next(found, None)

    @property
    def idle(self) -> bool:
        return self._delivery.idle

    def offer(self, events: Iterable[Outgoing]) -> None:
        found = list(events)
        self.kept.update(
            event.ticket.lane for event in found if event.keep and isinstance(event.ticket, Mark)
        )
        self._settle(self._delivery.offer(found), "full")
        self._wake.set()

    def slow_down(self) -> None:
        """It holds up others: drop everything that need not be kept, beyond what a stuck address may hold."""
        self._settle(self._delivery.slow_down(), "full")

    def release(self, streams: Set[int]) -> None:
        """These streams are gone: their events need not be kept."""
        self._delivery.release(lambda ticket: isinstance(ticket, Mark) and ticket.stream in streams)
        self.kept = Counter({lane: n for lane, n in self.kept.items() if lane[0] not in streams})

    def _settle(self, events: list[Outgoing], cause: Cause | None) -> None:
        for event in events:
            if event.keep and isinstance(event.ticket, Mark):
                lane = event.ticket.lane
                self.kept[lane] -= 1
                if not self.kept[lane]:
                    del self.kept[lane]
        if events:
            self._finished(events, cause)

    async def run(self) -> None:
        """Deliver until nothing has been offered for ``notify_idle_seconds``, or cancelled."""
        while True:
            delay = self._delivery.connect_in(time.monotonic())
            if delay is None:
                if not await self._woken(self._settings.notify_idle_seconds) and self._delivery.idle:
                    return
                continue
            await asyncio.sleep(delay)
            cause = await self._connection()
            had_work = not self._delivery.idle
            dropped = self._delivery.lost(time.monotonic())
            if had_work:
                self._cause = cause
                metrics.FAILURES.labels(cause).inc()
                self._log.warning(
                    "address not reached", url=shown(self._url), cause=cause, dropped=len(dropped)
                )
            self._settle(dropped, cause)

    async def _woken(self, seconds: float) -> bool:
        """Wait until something has been offered or confirmed since the last ``clear``; False if not in
        time."""
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            return False
        self._wake.clear()
        return True

    async def _connection(self) -> Cause:
        """One connection, from opening to end; returns why it ended."""
        try:
            async with asyncio.timeout(self._settings.notify_connect_seconds):
                # pings are answered below: their answers are what we wait for
                socket = await self._session.ws_connect(self._url, autoping=False)
        except TimeoutError:
            return "silent"
        except aiohttp.WSServerHandshakeError:
            return "handshake"
        except aiohttp.ClientSSLError:  # some of these are a ValueError too
            return "tls"
        except (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError, ValueError):
            return "bad_address"
        except (aiohttp.ClientError, OSError) as error:
            return "forbidden" if isinstance(getattr(error, "os_error", error), Forbidden) else "refused"
        self._delivery.connected()
        metrics.CONNECTIONS.inc()
        both = [asyncio.create_task(self._listen(socket)), asyncio.create_task(self._send(socket))]
        try:
            ended, _ = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            return ended.pop().result()
        finally:
            for task in both:
                task.cancel()
            await asyncio.gather(*both, return_exceptions=True)
            await self._close(socket)
            metrics.CONNECTIONS.dec()

    @staticmethod
    async def _close(socket: aiohttp.ClientWebSocketResponse) -> None:
        try:
            async with asyncio.timeout(_CLOSING):
                await socket.close(code=aiohttp.WSCloseCode.GOING_AWAY)
        except (TimeoutError, aiohttp.ClientError, OSError):
            return  # it ends when its transport does

    async def _listen(self, socket: aiohttp.ClientWebSocketResponse) -> Cause:
        while True:
            received = await socket.receive()
            if received.type is aiohttp.WSMsgType.PONG:
                number = bytes(received.data)
                if number.isdigit():
                    self._settle(self._delivery.acknowledged(int(number)), None)
                    self._wake.set()
            elif received.type is aiohttp.WSMsgType.PING:
                await socket.pong(received.data)
            elif received.type not in (aiohttp.WSMsgType.TEXT, aiohttp.WSMsgType.BINARY):
                return "closed"

    async def _send(self, socket: aiohttp.ClientWebSocketResponse) -> Cause:
        answer = self._settings.notify_answer_seconds
        sent_at: dict[int, float] = {}
        while True:
            outbound = self._delivery.take(uuid.uuid4().hex, milliseconds(time.time_ns()))
            if outbound is None:
                oldest = self._delivery.unconfirmed
                if oldest is None:
                    if not await self._woken(self._settings.notify_idle_seconds) and self._delivery.idle:
                        return "idle"
                    continue
                sent_at = {number: at for number, at in sent_at.items() if number >= oldest}
                left = sent_at[oldest] + answer - time.monotonic()
                if left <= 0 or not (await self._woken(left) or self._delivery.unconfirmed != oldest):
                    return "silent"
                continue
            sent_at[outbound.number] = time.monotonic()
            try:
                async with asyncio.timeout(answer):
                    await socket.send_str(outbound.text.decode())
                    await socket.ping(b"%d" % outbound.number)
            except TimeoutError:
                return "silent"
            except (aiohttp.ClientError, OSError):
                return "closed"
            metrics.MESSAGES.inc()
