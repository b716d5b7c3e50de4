"""The REST client against a real HTTP server that speaks as the gateway does."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from millrace.login import Login
from millrace.processes import free_port
from millrace.sql_client import Rest
from millrace_core.errors import ErrorCode, MillraceError


class _Echo(BaseHTTPRequestHandler):
    """Answers with the path and the statement; ``bad …`` as an SQL error; ``html`` with no JSON."""

    def do_POST(self) -> None:
        sql = self.rfile.read(int(self.headers["Content-Length"])).decode()
        expected = base64.b64encode(b"root:taosdata").decode()
        allowed = self.headers["Authorization"] == f"Basic {expected}"
        body: object = {
            "code": 0,
            "column_meta": [["path", "VARCHAR", 64], ["sql", "VARCHAR", 64]],
            "data": [[self.path, sql]],
            "rows": 1,
        }
        if sql.startswith("bad"):
            body = {"code": 0x2600, "desc": "unexpected word: bad"}
        self.send_response(200 if allowed else 401)
        self.end_headers()
        self.wfile.write(b"<html>" if sql == "html" else json.dumps(body).encode())

    def log_message(self, *_: object) -> None:
        """Quiet."""


@pytest.fixture
def url() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), _Echo)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def test_a_statement_goes_as_it_is(url: str) -> None:
    with Rest(url) as rest:
        answer = rest.execute("select '温度'", "db1")
        assert answer.rows == (("/rest/sql/db1", "select '温度'"),)
        assert answer.columns[0] == ("path", "VARCHAR", 64)
        assert rest.execute("select 1").rows[0][0] == "/rest/sql"


def test_the_gateways_error_keeps_its_code_and_words(url: str) -> None:
    with Rest(url) as rest, pytest.raises(MillraceError, match="unexpected word: bad") as caught:
        rest.execute("bad sql")
    assert caught.value.code is ErrorCode.SYNTAX


def test_a_wrong_password_is_told(url: str) -> None:
    with Rest(url, Login("root", "guess")) as rest, pytest.raises(MillraceError) as caught:
        rest.execute("select 1")
    assert caught.value.code is ErrorCode.AUTHENTICATION


def test_something_else_at_the_port_is_told(url: str) -> None:
    with Rest(url) as rest, pytest.raises(MillraceError, match="status 200, but not with a JSON object"):
        rest.execute("html")


def test_nobody_there_is_told() -> None:
    with Rest(f"http://127.0.0.1:{free_port()}") as rest, pytest.raises(MillraceError) as caught:
        rest.execute("select 1")
    assert caught.value.code is ErrorCode.UNAVAILABLE
