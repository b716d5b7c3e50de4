"""The supervisor on real processes: what crashes comes back, what was ended on purpose does not."""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from millrace import console, processes
from millrace.processes import Program, RunFolder
from millrace.settings import StackSettings
from millrace.stack import NAMES, Stack, Status
from millrace.supervision import supervisor
from millrace.supervision.supervisor import Pauses, Supervisor
from millrace_core.errors import MillraceError

NAME = "worker"
LIVES = "import time; time.sleep(60)"
DIES = "import sys; print('the disk is full', flush=True); sys.exit(3)"
QUICK = Pauses(first=0.05, longest=0.2, steady=60, look=0.02)


def _until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.02)


class Home:
    """One part, and a supervisor that starts it by running ``code``."""

    def __init__(self, folder: Path) -> None:
        self.place = RunFolder(folder)
        self.code = LIVES
        self.lines: list[str] = []
        self.watch = Supervisor(self.place, [NAME], self.start, self.lines.append, QUICK)

    def start(self, _: str = NAME) -> None:
        processes.start(self.place, Program(NAME, (sys.executable, "-c", self.code)))

    @property
    def restarts(self) -> int:
        found = supervisor.restarts(self.place).get(NAME)
        return found.count if found else 0


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = Home(tmp_path)
    yield home
    home.watch.stop()
    processes.kill(home.place, NAME)


def test_a_part_that_crashes_is_started_again(home: Home) -> None:
    home.start()
    home.watch.start()
    first = processes.running(home.place, NAME)
    assert first is not None
    first.kill()
    _until(lambda: "worker is running again" in home.lines)
    second = processes.running(home.place, NAME)
    assert second is not None and second.pid != first.pid
    assert home.lines[0] == "worker ended unexpectedly and will be restarted in 0.05 s: signal SIGKILL"
    assert supervisor.restarts(home.place) == {NAME: supervisor.Restarts(1, "signal SIGKILL")}


def test_its_own_log_starts_afresh_when_it_is_long(home: Home) -> None:
    log = home.place.log_file(supervisor.NAME)
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_bytes(b"x" * (processes.LOG_BYTES + 1))
    home.code = DIES
    home.watch.start()
    home.start()
    _until(lambda: home.restarts >= 1)
    home.watch.stop()
    assert log.stat().st_size == 0
    assert log.with_name(f"{log.name}.1").stat().st_size == processes.LOG_BYTES + 1


def test_one_that_crashes_again_and_again_has_longer_and_longer_pauses(home: Home) -> None:
    home.code = DIES
    home.watch.start()
    home.start()
    _until(lambda: home.restarts >= 4)
    home.watch.stop()
    pauses = [line.split(" in ")[1].split(" s")[0] for line in home.lines if "unexpectedly" in line]
    assert pauses[:4] == ["0.05", "0.1", "0.2", "0.2"]
    assert supervisor.restarts(home.place)[NAME].cause == "exit status 3: the disk is full"
    assert [Pauses().after(crashes) for crashes in range(1, 8)] == [1, 2, 4, 8, 16, 30, 30]


def test_one_that_ran_long_begins_with_the_first_pause_again(home: Home) -> None:
    home.watch = Supervisor(
        home.place, [NAME], home.start, home.lines.append, Pauses(0.05, 0.2, steady=0.0, look=0.02)
    )
    home.code = DIES
    home.watch.start()
    home.start()
    _until(lambda: home.restarts >= 3)
    assert {line.split(" in ")[1][:4] for line in home.lines if "unexpectedly" in line} == {"0.05"}


@pytest.mark.parametrize("end", [processes.stop, processes.kill])
def test_what_was_ended_on_purpose_stays_ended(home: Home, end: Callable[[RunFolder, str], bool]) -> None:
    for _ in range(5):  # a test that kills and starts parts by itself
        home.start()
        if not home.watch._guards[0].is_alive():
            home.watch.start()
        time.sleep(0.05)
        assert end(home.place, NAME)
        time.sleep(0.05)
        assert processes.running(home.place, NAME) is None
    time.sleep(0.3)
    assert (home.lines, home.restarts) == ([], 0)
    assert processes.running(home.place, NAME) is None


def test_an_end_on_purpose_that_takes_its_time_is_no_crash(home: Home) -> None:
    code = (
        "import signal, sys, time\nsignal.signal(signal.SIGTERM, lambda *_: (time.sleep(0.3), sys.exit(1)))"
    )
    home.code = f"{code}\nprint('ready', flush=True)\ntime.sleep(60)"
    home.start()
    home.watch.start()
    _until(lambda: processes.tail(home.place.log_file(NAME)) == "ready")
    assert processes.stop(home.place, NAME)
    time.sleep(0.2)
    assert home.lines == []


def test_a_start_that_fails_is_tried_again(home: Home) -> None:
    tries: list[str] = []

    def start(name: str) -> None:
        tries.append(name)
        if len(tries) < 3:
            raise OSError("the port is in use")
        home.start()

    home.watch = Supervisor(home.place, [NAME], start, home.lines.append, QUICK)
    home.code = DIES
    home.start()
    home.watch.start()
    home.code = LIVES
    _until(lambda: "worker is running again" in home.lines)
    assert home.lines.count("worker did not start: the port is in use") == 2
    assert processes.running(home.place, NAME) is not None


def test_a_supervisor_may_end_without_what_it_has_started(tmp_path: Path) -> None:
    place = RunFolder(tmp_path)
    child = f"subprocess.Popen([sys.executable, '-c', {LIVES!r}])"
    code = f"import subprocess, sys, time; print({child}.pid, flush=True); time.sleep(60)"
    processes.start(place, Program("watcher", (sys.executable, "-c", code)))
    _until(lambda: processes.tail(place.log_file("watcher")) != "")
    started = psutil.Process(int(processes.tail(place.log_file("watcher"))))
    assert processes.stop(place, "watcher", alone=True)
    assert started.is_running() and started.status() != psutil.STATUS_ZOMBIE
    started.kill()


def test_status_says_how_often_and_why() -> None:
    row = Status("calc-svc", 6051, 17, True, 5.0, 1_000_000, 2, "signal SIGKILL")
    with console.out.capture() as shown:
        console.out.print(console.status_table([row]), width=160)
    assert "restarts" in shown.get() and "signal SIGKILL" in shown.get()
    other = dataclasses.replace(row, name="trigger-svc", followed=True)
    assert console.followed([row]) == []
    assert console.followed([row, other]) == ["a standby process is running for trigger-svc"]


@pytest.mark.parametrize(
    ("status", "body", "problem"),
    [
        (200, {"detail": {"stalled": []}}, ""),
        (
            503,
            {"detail": {"problem": "notifications are not being read yet"}},
            "notifications are not being read yet",
        ),
        (503, {"detail": {"started": False, "stalled": []}}, ""),
        (
            503,
            {
                "detail": {
                    "stalled": [{"part": "calc-svc", "since": "2026-01-01T00:00:00Z", "waits_for": "x"}]
                }
            },
            "calc-svc has been stalled since 2026-01-01T00:00:00Z: x",
        ),
        (503, [], "/healthz answered with status 503"),
    ],
)
def test_status_says_why_a_part_is_not_ready(status: int, body: object, problem: str, tmp_path: Path) -> None:
    stack = Stack(StackSettings.on_free_ports(tmp_path, tmp_path))
    transport = httpx.MockTransport(lambda _: httpx.Response(status, json=body))
    stack.__dict__["_http"] = httpx.Client(transport=transport)
    assert stack._health("calc-svc") == (status == 200, problem)
    row = Status("calc-svc", 6051, 17, status == 200, 5.0, 1_000_000, problem=problem)
    assert console.problems([row]) == ([f"calc-svc: {problem}"] if problem else [])


def test_supervision_is_a_setting(tmp_path: Path) -> None:
    assert StackSettings.from_environment({}).supervise
    assert not StackSettings.from_environment({"MILLRACE_SUPERVISE": "0"}).supervise
    assert not StackSettings.on_free_ports(tmp_path, tmp_path).supervise
    on = StackSettings.from_environment({"MILLRACE_DATA_DIR": str(tmp_path)})
    assert StackSettings.from_environment(on.variables()) == on
    with pytest.raises(MillraceError, match="MILLRACE_SUPERVISE must be 0 or 1, not 'yes'"):
        StackSettings.from_environment({"MILLRACE_SUPERVISE": "yes"})


def test_the_supervisor_is_a_process_of_the_stack(tmp_path: Path) -> None:
    settings = dataclasses.replace(StackSettings.on_free_ports(tmp_path, tmp_path), supervise=True)
    stack = Stack(settings)
    assert not stack.is_supervised()
    stack._supervise()
    stack._supervise()
    try:
        log = stack.place.log_file(supervisor.NAME)
        _until(lambda: "watching " in processes.tail(log))
        assert stack.is_supervised()
        assert processes.tail(log).count("watching ") == 1
        assert [row.restarts for row in stack.status()] == [0] * len(NAMES)
    finally:
        stack.down()
    assert not stack.is_supervised()
    assert processes.tail(log).endswith("no longer watching")
