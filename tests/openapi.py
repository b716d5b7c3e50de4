"""What OpenAPI says of an app is asked of it at random while it runs: no answer may be the server's fault."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import schemathesis
import uvicorn
from fastapi import FastAPI
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error

from millrace.processes import free_port
from millrace_service.web.patience import PatientProtocol

from .conftest import examples


@contextmanager
def served(app: FastAPI) -> Iterator[str]:
    """The app's address, while it answers there."""
    port = free_port()
    config = uvicorn.Config(app, port=port, log_config=None, access_log=False, http=PatientProtocol)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            thread.join(0.01)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(60)


def ask_everything(url: str, headers: Mapping[str, str], each: int, bodies: st.SearchStrategy[str]) -> int:
    """Ask each operation of the app so often; how many there were. ``bodies``: of what takes a text.

    :raises AssertionError: (schemathesis's own) for an answer of 500 and above.
    """
    schema = schemathesis.openapi.from_url(f"{url}/openapi.json")
    operations = [found.ok() for found in schema.get_all_operations()]
    for operation in operations:
        _ask(operation, headers, each, bodies)
    return len(operations)


def _ask(operation: Any, headers: Mapping[str, str], each: int, bodies: st.SearchStrategy[str]) -> None:
    takes_text = any(body.media_type == "text/plain" for body in operation.body)

    @settings(max_examples=examples(each), suppress_health_check=list(HealthCheck))
    @given(operation.as_strategy(), bodies, st.booleans())
    def ask(case: Any, body: str, known: bool) -> None:
        if takes_text:
            case.body = body
        case.call_and_validate(headers=headers if known else {}, checks=[not_a_server_error], timeout=120)

    ask()
