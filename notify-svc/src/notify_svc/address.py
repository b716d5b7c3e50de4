"""One address: its connection, driven by the state machine of ``millrace_core.notice.delivery``."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Iterable
from typing import Literal

import aiohttp
from structlog.typing import FilteringBoundLogger

from millrace_core.notice.delivery import Delivery
from millrace_core.notice.message import Outgoing
from notify_svc import metrics
from notify_svc.settings import NotifySettings

Cause = Literal["bad_address", "refused", "handshake", "closed", "silent", "idle"]
"""Why there is no connection: the address is not a WebSocket URL, nothing listens, it answered without a
WebSocket, it closed, it did not answer in time; or it was not needed any more."""

Finished = Callable[[list[Outgoing], Cause | None], None]
"""Told of events that are done with: delivered (None), or dropped for a cause."""

_CLOSING = 1.0
"""Seconds for a connection's closing handshake."""


class Address:
    """Delivers events to one URL, in order. All in one event loop.

    A message counts as delivered when the receiver has answered the ping that was sent behind it: an answer
    that every WebSocket library gives by itself once it has read the message.
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

    @property
    def failing(self) -> bool:
        return self._delivery.failing

    @property
    def idle(self) -> bool:
        return self._delivery.idle

    def offer(self, events: Iterable[Outgoing]) -> None:
        self._delivery.offer(events)
        self._wake.set()

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
                metrics.FAILURES.labels(cause).inc()
                self._log.warning("address not reached", url=self._url, cause=cause, dropped=len(dropped))
            self._finished(dropped, cause)

    async def _woken(self, seconds: float) -> bool:
        """Wait until something was offered or confirmed since the last ``clear``; False: not in time."""
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            return False
        self._wake.clear()
        return True

    async def _connection(self) -> Cause:
        """One connection from its opening to its end; why it ended."""
        try:
            async with asyncio.timeout(self._settings.notify_connect_seconds):
                # pings are answered below: their answers are what we wait for
                socket = await self._session.ws_connect(self._url, autoping=False)
        except TimeoutError:
            return "silent"
        except aiohttp.WSServerHandshakeError:
            return "handshake"
        except (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError, ValueError):
            return "bad_address"
        except (aiohttp.ClientError, OSError):
            return "refused"
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
            return  # it ends with its transport

    async def _listen(self, socket: aiohttp.ClientWebSocketResponse) -> Cause:
        while True:
            received = await socket.receive()
            if received.type is aiohttp.WSMsgType.PONG:
                number = bytes(received.data)
                if number.isdigit():
                    self._finished(self._delivery.acknowledged(int(number)), None)
                    self._wake.set()
            elif received.type is aiohttp.WSMsgType.PING:
                await socket.pong(received.data)
            elif received.type not in (aiohttp.WSMsgType.TEXT, aiohttp.WSMsgType.BINARY):
                return "closed"

    async def _send(self, socket: aiohttp.ClientWebSocketResponse) -> Cause:
        answer = self._settings.notify_answer_seconds
        sent_at: dict[int, float] = {}
        while True:
            outbound = self._delivery.take(uuid.uuid4().hex, time.time_ns() // 1_000_000)
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
