"""notify-svc's OpenAPI, asked at random over HTTP: whatever is sent, no answer is the server's fault."""

from __future__ import annotations

import httpx
from hypothesis import strategies as st

from millrace_core.wire.topics import NOTIFICATIONS
from millrace_wal import MemoryLog
from notify_svc.app import notify_app

from ...openapi import ask_everything, served
from .conftest import LOGGER, settings


def test_no_answer_is_the_servers_fault() -> None:
    log = MemoryLog()
    log.ensure_topics([(NOTIFICATIONS.name, 1)])
    known = {"Authorization": "Bearer a-token-of-these-tests"}
    with served(notify_app(settings(), lambda: log, LOGGER)) as url:
        while httpx.get(f"{url}/healthz").status_code != 200:
            pass
        assert ask_everything(url, known, 60, st.text()) >= 2
