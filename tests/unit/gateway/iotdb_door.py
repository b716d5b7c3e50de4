"""A client of IoTDB's REST v2 on a gateway with a log in memory, for the tests of the door."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from fastapi.testclient import TestClient
from tests.unit.gateway.apps import app_of
from tests.unit.gateway.conftest import Rig

TOPIC = "wal.root-2ep.devices"
OK = {"code": 200, "message": "SUCCESS_STATUS"}


class Door:
    """A client of the door, as root with IoTDB's own password unless said otherwise."""

    def __init__(self, rig: Rig) -> None:
        self._client = TestClient(app_of(rig.gateway))
        self.auth: tuple[str, str] | None = ("root", "root")

    def post(self, path: str, **body: Any) -> tuple[int, Any]:
        found = self._client.post(f"/rest/v2/{path}", json=body, auth=self.auth)
        return found.status_code, found.json()

    def do(self, sql: str) -> Any:
        """The body of /nonQuery; HTTP is 200."""
        http, body = self.post("nonQuery", sql=sql)
        assert http == 200
        return body

    def ask(self, sql: str, **more: Any) -> Any:
        http, body = self.post("query", sql=sql, **more)
        assert http == 200
        return body

    def get(self, path: str) -> Any:
        return self._client.get(path).json()


@pytest.fixture
def door(rig: Rig) -> Iterator[Door]:
    yield Door(rig)


def written(rig: Rig) -> list[tuple[str, Any]]:
    """(device, rows) of each message with rows."""
    found = []
    for key, value in rig.values(TOPIC):
        if value[:1] in (b"{", b"["):  # the others are operations
            found.append((key.decode(), json.loads(value)))
    return found


def rows_of(rig: Rig, *rows: tuple[str, int, float | None]) -> None:
    devices, times, values = zip(*rows, strict=True)
    rig.calc.answers(
        ("tbname", "VARCHAR(192)", pa.array(devices)), ("time", "TIMESTAMP", pa.array(times, pa.int64())),
        ("v", "DOUBLE", pa.array(values, pa.float64())),
    )  # fmt: skip
