"""What has stalled in the services, for whoever asks for the streams (decision 0034)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping

import httpx

from api_gateway.context import Context
from millrace_core.wire import status
from millrace_core.wire.status import Problem
from millrace_core.wire.topics import STATUS
from millrace_service import ServiceToken, Stall, instant
from millrace_wal import Message

EVERY = 5.0
"""Seconds between two requests to a service."""
ANSWER_SECONDS = 2.0
GATEWAY, NOTIFY = "api-gateway", "notify-svc"


class _NotBelieved(Exception):
    """The service has a different token."""


def _reason(error: Exception) -> str:
    return "its service token is different" if isinstance(error, _NotBelieved) else type(error).__name__


class Stalls:
    """Asks the other services' ``/healthz`` what has stalled; a work of :class:`millrace_service.Life`. A
    service that does not answer for ``stall_seconds`` has stalled as a whole. ``own``: what has stalled in
    this process. The board is told at once, others through the topic ``status``, where only the gateway
    writes this.
    """

    def __init__(
        self,
        context: Context,
        own: Callable[[], list[Stall]],
        token: ServiceToken,
        transport: httpx.BaseTransport | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.name, self.stopping = "stalls", threading.Event()
        self._context, self._own, self._now = context, own, now
        settings = context.settings
        self._urls = {
            "calc-svc": settings.calc_url, "trigger-svc": settings.trigger_url, NOTIFY: settings.notify_url,
        }  # fmt: skip
        # loopback needs no proxy
        self._http = httpx.Client(
            timeout=ANSWER_SECONDS,
            trust_env=False,
            transport=transport,
            headers=token.header,
            verify=settings.trust,
        )
        self._silent: dict[str, float] = {}

    def begin(self) -> None:
        """There is nothing to open."""

    def step(self) -> None:
        found = [(GATEWAY, stall) for stall in self._own()]
        for service, url in self._urls.items():
            found += [(service, stall) for stall in self._ask(service, url)]
        now = {status.key(one): one for one in (self._problem(*stall) for stall in found)}
        news = list(changes(self._context.board.stalled(now), now))
        if news:
            self._context.log.append(news)
        self.stopping.wait(EVERY)

    def end(self) -> None:
        """There is nothing to close."""

    def close(self) -> None:
        self._http.close()

    def _ask(self, service: str, url: str) -> list[Stall]:
        try:
            body = self._http.get(f"{url}/healthz").json()
            if "ready" in body and "detail" not in body:
                raise _NotBelieved
            found = [Stall.from_wire(one) for one in body["detail"].get("stalled", ())]
        except (httpx.HTTPError, ValueError, KeyError, TypeError, AttributeError, _NotBelieved) as error:
            since = self._silent.setdefault(service, self._now())
            silent = self._now() - since > self._context.settings.stall_seconds
            waits_for = f"its /healthz gives no usable answer ({_reason(error)})"
            return [Stall("the process", since, waits_for)] if silent else []
        self._silent.pop(service, None)
        return found

    def _problem(self, service: str, stall: Stall) -> Problem:
        """A stall of notify-svc concerns the streams that notify, one of another service all streams."""
        streams: tuple[int, ...] = ()
        if service == NOTIFY:
            entries = list(self._context.catalog.streams.values())
            streams = tuple(sorted(entry.spec.uid for entry in entries if entry.spec.notify is not None))
        return Problem(
            service, f"stalled/{stall.part}", f"{service}: {stall}", streams=streams,
            everything=service != NOTIFY, stalled_since=instant(stall.since),
        )  # fmt: skip


def changes(before: Mapping[bytes, Problem], now: Mapping[bytes, Problem]) -> Iterator[Message]:
    """What goes into the topic: what has stalled, and what no longer is. It is not news that more waits
    because of the same stall."""
    for key, problem in now.items():
        if key not in before or before[key].stalled_since != problem.stalled_since:
            yield Message(STATUS.name, key, status.encode(problem))
    for key in before.keys() - now.keys():
        yield Message(STATUS.name, key, None)
