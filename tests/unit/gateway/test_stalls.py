"""What has stalled in the services is told with the streams that it touches, here and to other services."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest

from api_gateway.context import Context
from api_gateway.settings import GatewaySettings
from api_gateway.upkeep.stalls import Stalls
from api_gateway.watching.status_board import StatusBoard, StatusReader
from millrace_core.catalog import Catalog, StreamEntry
from millrace_core.model.stream import Duration, Notify, StreamSpec
from millrace_core.trigger.types import Period
from millrace_core.wire import status
from millrace_core.wire.topics import STATUS
from millrace_service import ServiceToken, Stall
from millrace_wal import MemoryLog, replay

SINCE = 1_000_000_000.0
TOKEN = ServiceToken("a-token-of-this-test")
LOOP = Stall("calc-svc", SINCE, "12 records of topic triggers")


class Bench:
    """The gateway's board and its questions to services whose health is told here."""

    def __init__(self) -> None:
        self.log, self.board, self.time = MemoryLog(), StatusBoard(), SINCE
        self.log.ensure_topics([STATUS])
        self.told: dict[int, list[Stall] | None] = {6051: [], 6061: [], 6071: []}
        self.own: list[Stall] = []
        self.entries = {("d", "quiet"): entry(1), ("d", "tells"): entry(2, Notify(("ws://a/",)))}
        self.reader = StatusReader(self.log, self.board)
        context = cast(Context, SimpleNamespace(
            log=self.log, board=self.board, settings=GatewaySettings(),
            catalog=SimpleNamespace(streams=self.entries),
        ))  # fmt: skip
        transport = httpx.MockTransport(self._answer)
        self.stalls = Stalls(context, lambda: self.own, TOKEN, transport, lambda: self.time)
        self.stalls.stopping.set()  # steps do not wait

    def _answer(self, request: httpx.Request) -> httpx.Response:
        assert request.headers["authorization"] == TOKEN.header["Authorization"]
        found = self.told[request.url.port or 0]
        if found is None:
            raise httpx.ConnectError("refused")
        detail = {"stalled": [stall.to_wire() for stall in found]}
        return httpx.Response(
            503 if found else 200, json={"service": "s", "ready": not found, "detail": detail}
        )

    def messages(self) -> dict[str, str]:
        """What SHOW STREAMS says after another round."""
        self.stalls.step()
        self.reader.catch_up()
        self.board.applied = 9
        found = {name: self.board.of(one, Catalog()) for (_, name), one in self.entries.items()}
        assert {state for state, _ in found.values()} == {"Running"}
        return {name: message for name, (_, message) in found.items()}

    def records(self) -> list[tuple[bytes, Any]]:
        return [
            (one.key or b"", one.value and status.decode(one.value)) for one in replay(self.log, STATUS.name)
        ]


def entry(uid: int, notify: Notify | None = None) -> StreamEntry:
    spec = StreamSpec(uid, "d", f"s{uid}", "", Period(Duration(1, "s")), notify=notify)
    return StreamEntry(spec, "Running", 0, 0)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_nothing_is_said_of_what_is_well(bench: Bench) -> None:
    assert bench.messages() == {"quiet": "", "tells": ""}
    assert bench.records() == []


def test_what_has_stalled_is_told_with_all_streams_until_it_moves(bench: Bench) -> None:
    bench.told[6051] = [LOOP]
    text = "calc-svc: calc-svc has been stalled since 2001-09-09T01:46:40Z: 12 records of topic triggers"
    assert bench.messages() == {"quiet": text, "tells": text}
    bench.told[6051] = [Stall(LOOP.part, SINCE, "15 records of topic triggers")]
    assert bench.messages()["quiet"].endswith("15 records of topic triggers")
    ((key, problem),) = bench.records()
    assert key == b"problem/calc-svc/stalled/calc-svc", "that more waits is no news to others"
    assert (problem.message, problem.everything) == (text, True)
    bench.told[6051] = []
    assert bench.messages() == {"quiet": "", "tells": ""}
    assert bench.records()[-1] == (key, None)


def test_a_stall_of_notifications_touches_the_streams_that_notify(bench: Bench) -> None:
    bench.told[6061] = [Stall("intake", SINCE, "3 records")]
    found = bench.messages()
    assert found["quiet"] == "" and found["tells"].startswith("notify-svc: intake has been stalled since")


def test_what_has_stalled_in_the_gateway_itself_is_told_too(bench: Bench) -> None:
    bench.own = [Stall("registrations", SINCE, "the broker does not answer")]
    assert bench.messages()["quiet"].startswith("api-gateway: registrations has been stalled since")


@pytest.mark.parametrize("answer", ["refused", "nonsense"])
def test_a_service_that_does_not_answer_has_stalled_after_a_while(
    bench: Bench, answer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if answer == "refused":
        bench.told[6071] = None
    else:
        healthy: Callable[[httpx.Request], httpx.Response] = bench._answer
        monkeypatch.setattr(bench.stalls, "_http", httpx.Client(transport=httpx.MockTransport(
            lambda request: httpx.Response(200, text="[]") if request.url.port == 6071 else healthy(request)
        ), headers=TOKEN.header))  # fmt: skip
    assert bench.messages()["quiet"] == ""
    bench.time += 31
    assert bench.messages()["quiet"].startswith(
        "trigger-svc: the process has been stalled since 2001-09-09T01:46:40Z: its /healthz gives no "
        "usable answer"
    )


def test_what_a_gateway_before_this_one_has_told_is_taken_back(bench: Bench) -> None:
    bench.told[6051] = [LOOP]
    bench.messages()
    again = Bench()
    again.log = bench.log
    again.stalls._context.log = bench.log
    again.reader = StatusReader(bench.log, again.board)
    again.reader.catch_up()
    assert again.messages() == {"quiet": "", "tells": ""}
    assert bench.records()[-1] == (b"problem/calc-svc/stalled/calc-svc", None)


def test_a_service_with_another_token_is_told_as_such(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    told = {"service": "calc-svc", "ready": True}
    answer = httpx.MockTransport(lambda _: httpx.Response(200, json=told))
    monkeypatch.setattr(bench.stalls, "_http", httpx.Client(transport=answer))
    bench.messages()
    bench.time += 31
    assert bench.messages()["quiet"].endswith("(its service token is different)")
