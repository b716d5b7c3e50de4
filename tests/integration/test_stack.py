"""The stack's own commands on real processes: up, status, a crash and a restart of one part, the demo."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from millrace.settings import SERVICES, StackSettings
from millrace.sql_client import Rest
from millrace.stack import NAMES, Stack
from millrace_core.errors import ErrorCode, MillraceError

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.stack


def _millrace(stack: Stack, *arguments: str, seconds: float = 300) -> subprocess.CompletedProcess[str]:
    """The command line as a user runs it, on this stack."""
    return subprocess.run(
        [sys.executable, "-m", "millrace", *arguments],
        env=os.environ | stack.settings.variables() | {"COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )


def test_every_part_is_ready_in_its_own_process(stack: Stack) -> None:
    rows = stack.status()
    assert [row.name for row in rows] == list(NAMES)
    assert all(row.ready for row in rows)
    assert len({row.pid for row in rows}) == len(NAMES)
    assert not stack.up()


def test_a_second_stack_on_the_same_ports_is_refused_before_it_starts(stack: Stack, tmp_path: Path) -> None:
    ours = stack.settings
    second = Stack(StackSettings(tmp_path, ours.jars_dir, ours.broker_port, ours.ports))
    with pytest.raises(MillraceError, match=r"port \d+ of broker is in use: free it or set MILLRACE_BROKER"):
        second.up()
    assert not second.is_running()


@pytest.mark.parametrize("name", [service.name for service in SERVICES])
def test_a_killed_service_comes_back(stack: Stack, name: str) -> None:
    before = {row.name: row.pid for row in stack.status()}
    assert stack.kill(name)
    assert not stack.is_up()
    stack.start(name)
    after = {row.name: row.pid for row in stack.status()}
    assert stack.is_up()
    assert {part for part in NAMES if before[part] != after[part]} == {name}


def test_sql_from_the_command_line(stack: Stack) -> None:
    done = _millrace(stack, "sql", "select server_version()")
    assert done.returncode == 0, done.stderr
    assert "1 row" in done.stdout
    wrong = _millrace(stack, "sql", "selec 1")
    assert wrong.returncode == 1
    assert wrong.stderr.startswith("error: ")
    assert "Traceback" not in wrong.stderr


def test_status_and_logs_from_the_command_line(stack: Stack) -> None:
    status = _millrace(stack, "status")
    assert status.returncode == 0, status.stdout
    assert status.stdout.count("ready") == len(NAMES)
    logs = _millrace(stack, "logs", "api-gateway")
    assert str(stack.place.log_file("api-gateway")) in logs.stdout


def test_the_examples_do_what_they_say(stack: Stack) -> None:
    environment = os.environ | stack.settings.variables()

    def example(*command: str) -> str:
        done = subprocess.run(
            command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=180, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert '"data":[["2026-01-01T00:00:00.000Z",2,1.5,"m1"]]' in example("bash", "examples/first_stream.sh")
    with Rest(stack.settings.url("api-gateway")) as rest:
        rest.execute("CREATE DATABASE power")
        rest.execute("CREATE STABLE power.meters (ts TIMESTAMP, amps DOUBLE) TAGS (site INT)")
        example(sys.executable, "examples/producer.py")
        deadline = time.monotonic() + 60
        wanted = ((6, 2.0, 2),)
        sql = "SELECT count(*), max(amps), max(site) FROM power.m2"
        while (rows := _rows(rest, sql)) != wanted and time.monotonic() < deadline:
            time.sleep(0.5)
        rest.execute("DROP DATABASE power")
    assert rows == wanted


def _rows(rest: Rest, sql: str) -> tuple[tuple[Any, ...], ...]:
    """The rows, none as long as the table is unknown."""
    try:
        return rest.execute(sql).rows
    except MillraceError as error:
        if error.code is not ErrorCode.UNKNOWN_TABLE:
            raise
        return ()


def test_the_demo_agrees_with_duckdb_twice(stack: Stack) -> None:
    for _ in range(2):  # the second run drops what the first one left
        done = _millrace(stack, "demo")
        assert done.returncode == 0, done.stdout + done.stderr
        assert "All 728 daily figures and 728 notifications match those of DuckDB." in done.stdout
    with Rest(stack.settings.url("api-gateway")) as rest:
        assert rest.execute("SELECT count(*) FROM demo.temps").rows == ((17_518,),)
    assert stack.is_up()
