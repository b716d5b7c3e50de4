"""A stage of the bench, as far as it needs no stack."""

from __future__ import annotations

import os
from typing import Any

import pytest
from bench.stage import Stage


class Parts:
    """Notes what is stopped and started, and with which setting."""

    def __init__(self) -> None:
        self.did: list[tuple[str, str, str | None]] = []

    def stop(self, name: str) -> None:
        self.did.append(("stop", name, os.environ.get("MILLRACE_SETTING")))

    def start(self, name: str) -> None:
        self.did.append(("start", name, os.environ.get("MILLRACE_SETTING")))


def test_a_part_is_started_again_with_more_settings_that_nothing_else_gets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("MILLRACE_SETTING", raising=False)
    parts: Any = Parts()
    nothing: Any = None
    Stage(parts, nothing, nothing, 0.0).restart("calc-svc", {"MILLRACE_SETTING": "on"})
    assert parts.did == [("stop", "calc-svc", None), ("start", "calc-svc", "on")]
    assert "MILLRACE_SETTING" not in os.environ
