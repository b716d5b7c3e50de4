"""Every log line is one JSON object, whoever writes it."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest

from millrace_service import configure_logs


@pytest.fixture(autouse=True)
def root_logger() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers, root.level = handlers, level


def test_lines_are_json(capsys: pytest.CaptureFixture[str]) -> None:
    log = configure_logs("calc-svc", "INFO")
    log.info("stored", rows=3, table="设备")
    log.debug("too small a thing")
    logging.getLogger("a.library").warning("half of %s", "it", extra={"part": 1})
    try:
        raise ValueError("broken")
    except ValueError:
        log.exception("failed")
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [(line["event"], line["level"]) for line in lines] == [
        ("stored", "info"), ("half of it", "warning"), ("failed", "error"),
    ]  # fmt: skip
    assert lines[0]["rows"] == 3
    assert lines[0]["table"] == "设备"
    assert lines[1]["part"] == 1
    assert "ValueError: broken" in lines[2]["exception"]
    assert all(line["service"] == "calc-svc" and line["time"].endswith("Z") for line in lines)


def test_libraries_do_not_log_each_request(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("calc-svc", "INFO")
    for name in ("httpx", "py4j", "py4j.clientserver"):
        logging.getLogger(name).info("a request")
        logging.getLogger(name).warning("a fault of %s", name)
    lines = [json.loads(line)["event"] for line in capsys.readouterr().err.splitlines()]
    assert lines == ["a fault of httpx", "a fault of py4j", "a fault of py4j.clientserver"]
