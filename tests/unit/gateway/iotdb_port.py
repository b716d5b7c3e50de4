"""IoTDB's own Python client at the RPC port of a gateway with a log in memory."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
import structlog
from iotdb.Session import Session
from iotdb.utils.exception import IoTDBConnectionException, StatementExecutionException
from tests.unit.gateway.conftest import Rig
from tests.unit.gateway.iotdb_door import written

from api_gateway.iotdb.login import IotdbLogins
from api_gateway.iotdb_rpc.server import RpcServer, talk

LIMIT = 1_000_000


class Port:
    """The door, on a loop of its own."""

    def __init__(self, rig: Rig) -> None:
        gateway = rig.gateway
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        logins = IotdbLogins(gateway.logins, gateway.context.settings.first_password)
        self.server = RpcServer(
            talk(gateway.iotdb), logins, structlog.get_logger(), "127.0.0.1", 0, "UTC", LIMIT
        )
        self._do(self.server.start())
        self._sessions: list[Session] = []

    def _do(self, work: Any) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(20)

    def session(
        self, user: str = "root", password: str = "root", *, compact: bool = False, **more: Any
    ) -> Any:
        made = Session("127.0.0.1", self.server.port, user, password, zone_id="UTC", **more)
        made.open(compact)
        self._sessions.append(made)
        return made

    def close(self) -> None:
        for session in self._sessions:
            with suppress(IoTDBConnectionException):  # cut off
                session.close()
        self._do(self.server.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@pytest.fixture
def port(rig: Rig) -> Iterator[Port]:
    made = Port(rig)
    yield made
    made.close()


@pytest.fixture
def session(port: Port) -> Any:
    return port.session()


def shown(data: Any) -> list[list[Any]]:
    """Rows of a data set: the time, and the fields as text."""
    found = []
    while data.has_next():
        row = data.next()
        found.append([int(row.get_timestamp()), *(str(field) for field in row.get_fields())])
    data.close_operation_handle()
    return found


def by_device(rig: Rig) -> list[tuple[str, Any]]:
    """What was written; of a device in its order."""
    return sorted(written(rig), key=lambda pair: pair[0])


def code(work: Callable[[], Any]) -> int:
    with pytest.raises(StatementExecutionException) as caught:
        work()
    return int(str(caught.value).split(":", maxsplit=1)[0].strip())
