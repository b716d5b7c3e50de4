"""What is read of a request, before and after the caller is known: at the level of ASGI messages."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import pytest

from api_gateway.service import gateway_app

RIGHT = b"Basic " + base64.b64encode(b"root:taosdata")
WRONG = b"Basic " + base64.b64encode(b"root:wrong")


def ask(
    rig: Any, parts: list[bytes], path: str = "/rest/sql/d", **headers: bytes
) -> tuple[int, dict[str, Any], int]:
    """Status, body, and how many parts of the request were read. After the last part comes no end."""
    read = 0
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        nonlocal read
        if parts and read == len(parts):
            await asyncio.Event().wait()  # the client waits for its answer
        read += 1
        return {
            "type": "http.request",
            "body": parts[read - 1],
            "more_body": read < len(parts) or len(parts) > 1,
        }

    async def send(message: Any) -> None:
        sent.append(message)

    given = [(name.replace("_", "-").encode(), value) for name, value in headers.items()]
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST",
        "path": path, "raw_path": path.encode(), "query_string": b"", "root_path": "",
        "scheme": "http", "headers": given, "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 6041),
    }  # fmt: skip
    asyncio.run(gateway_app(rig.gateway)(scope, receive, send))
    text = b"".join(message.get("body", b"") for message in sent)
    return sent[0]["status"], json.loads(text), read


PATHS = ["/rest/sql/d", "/rest/v2/query", "/rest/v2/nonQuery", "/rest/v2/insertTablet", "/api/v1/streams"]
"""Doors that take bodies."""


@pytest.mark.parametrize("headers", [{}, {"authorization": WRONG}, {"authorization": b"Basic x"}])
@pytest.mark.parametrize("path", PATHS)
def test_nothing_is_read_from_somebody_unknown(rig: Any, path: str, headers: dict[str, bytes]) -> None:
    status, _, read = ask(rig, [b"SHOW DATABASES"], path, **headers)
    assert (status, read) == (401, 0)


@pytest.mark.parametrize("path", PATHS)
def test_what_is_told_to_be_too_long_is_not_read(rig: Any, path: str) -> None:
    size = str(rig.gateway.context.settings.body_bytes + 1).encode()
    status, said, read = ask(rig, [b"x"], path, authorization=RIGHT, content_length=size)
    # IoTDB has its own status in the body
    assert (status, read) == (200 if "v2" in path else 413, 0)
    assert "MILLRACE_BODY_BYTES" in str(said)


@pytest.mark.parametrize("path", PATHS)
def test_what_turns_out_to_be_too_long_is_read_no_further(rig: Any, path: str) -> None:
    rig.restart(body_bytes=2048)
    status, said, read = ask(rig, [b"x" * 1000] * 10, path, authorization=RIGHT)
    assert (status, read) == (200 if "v2" in path else 413, 3)
    assert "MILLRACE_BODY_BYTES" in str(said)


def test_what_is_as_long_as_it_may_be_is_run(rig: Any) -> None:
    rig.restart(body_bytes=2048)
    text = b"SHOW DATABASES".ljust(2048)
    status, said, read = ask(rig, [text], authorization=RIGHT, content_length=b"2048")
    assert (status, said["code"], read) == (200, 0, 1)
