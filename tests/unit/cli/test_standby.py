"""A process that stands by takes the place of the one that ends, on real processes of a moment's start."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from millrace import processes
from millrace.processes import Program, RunFolder
from millrace.supervision import standby
from millrace.supervision.supervisor import Pauses, Supervisor

NAME = "worker"
CODE = """
import sys, time
from pathlib import Path
from millrace_service import turn_of, wait_for_turn
turn = turn_of(sys.argv[1:])
if turn is not None:
    wait_for_turn(turn)
with Path("served").open("a") as served:
    served.write("after its turn\\n" if turn else "at once\\n")
time.sleep(60)
"""


def until(done: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.02)


class Home:
    """A service, and what keeps its next process."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.place = folder, RunFolder(folder)
        self.program = self.of("one")

    def of(self, settings: str) -> Program:
        return Program(NAME, (sys.executable, "-c", CODE), {"MILLRACE_CALC_EXAMPLE": settings})

    def start(self, _: str = NAME) -> None:
        if not standby.take_over(self.place, self.program):
            processes.start(self.place, self.program)

    def keep_next(self, name: str) -> None:
        standby.keep(self.place, self.program)

    def has_next(self, name: str) -> bool:
        return standby.waits(self.place, name)

    @property
    def served(self) -> list[str]:
        file = self.folder / "served"
        return file.read_text().splitlines() if file.exists() else []

    @property
    def turns(self) -> list[Path]:
        return list((self.folder / "run").glob("*.turn"))

    def running(self, name: str = NAME) -> psutil.Process:
        found = processes.running(self.place, name)
        assert found is not None
        return found


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = Home(tmp_path)
    yield home
    standby.end(home.place, NAME)
    processes.kill(home.place, NAME)


def test_it_serves_once_the_one_before_has_ended(home: Home) -> None:
    home.start()
    until(lambda: home.served == ["at once"])
    assert standby.keep(home.place, home.program) and not standby.keep(home.place, home.program)
    waiting = home.running(standby.name_of(NAME))
    assert home.served == ["at once"]
    processes.kill(home.place, NAME)
    home.start()
    assert home.running() == waiting and not home.has_next(NAME) and not home.turns
    until(lambda: home.served == ["at once", "after its turn"])


def test_one_of_other_settings_is_of_no_use(home: Home) -> None:
    standby.keep(home.place, home.program)
    waiting = home.running(standby.name_of(NAME))
    home.program = home.of("two")
    home.start()
    until(lambda: home.served == ["at once"])
    assert processes.ended(waiting) and not home.turns


def test_one_of_other_settings_is_followed(home: Home) -> None:
    standby.keep(home.place, home.program)
    waiting = home.running(standby.name_of(NAME))
    home.program = home.of("two")
    assert standby.keep(home.place, home.program)
    assert processes.ended(waiting) and len(home.turns) == 1


def test_one_that_has_ended_takes_nothing_over(home: Home) -> None:
    standby.keep(home.place, home.program)
    home.running(standby.name_of(NAME)).kill()
    until(lambda: not home.has_next(NAME))
    home.start()
    until(lambda: home.served == ["at once"])


def test_it_takes_nothing_over_from_one_that_runs(home: Home) -> None:
    home.start()
    standby.keep(home.place, home.program)
    first, waiting = home.running(), home.running(standby.name_of(NAME))
    home.start()
    assert home.running() == first and home.running(standby.name_of(NAME)) == waiting


def test_who_crashes_is_followed_without_a_pause(home: Home) -> None:
    lines: list[str] = []
    watch = Supervisor(
        home.place, [NAME], home.start, lines.append, Pauses(first=600, look=0.02), following=home
    )
    home.start()
    until(lambda: home.served == ["at once"])
    watch.start()
    until(lambda: home.has_next(NAME))
    home.running().kill()
    until(lambda: home.served == ["at once", "after its turn"])
    until(lambda: home.has_next(NAME))
    assert lines[0] == "worker ended unexpectedly and will be restarted in 0 s: signal SIGKILL"
    watch.stop()
