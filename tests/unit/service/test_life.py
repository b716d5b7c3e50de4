"""A thread's life: begin, step, begin anew after what may be tried again; all else ends the process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence

import pytest
import structlog
from structlog.testing import capture_logs

from millrace_core.errors import ErrorCode, MillraceError
from millrace_service import Life, life

AWAY = MillraceError(ErrorCode.UNAVAILABLE, "the broker is away")
REFUSED = MillraceError(ErrorCode.INVALID_VALUE, "never")


Outcomes = Sequence[Exception | None]


def until(condition: Callable[[], bool], within: float = 10) -> None:
    end = time.monotonic() + within
    while not condition():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.005)


class Script:
    """A work that raises what ``steps`` say, one after the other, and then does nothing."""

    name = "script"

    def __init__(self, steps: Outcomes = (), begins: Outcomes = ()) -> None:
        self.stopping = threading.Event()
        self.told: list[str] = []
        self._begins, self._steps = iter(begins), iter(steps)

    def begin(self) -> None:
        self.told.append("begin")
        if (error := next(self._begins, None)) is not None:
            raise error

    def step(self) -> None:
        self.told.append("step")
        if (error := next(self._steps, None)) is not None:
            raise error
        self.stopping.wait(0.01)

    def end(self) -> None:
        self.told.append("end")


def lived(work: Script, ended: Callable[[], None] = lambda: None, pause: float = 0.0) -> Life:
    found = Life(work, structlog.get_logger("test"), ended, pause)
    found.start()
    return found


def test_a_work_begins_goes_on_and_ends_when_it_is_stopped() -> None:
    work = Script()
    one = lived(work)
    until(lambda: work.told.count("step") > 3)
    assert one.alive and one.trouble is None
    one.stop()
    assert not one.alive and not one.failed
    assert (work.told[0], work.told[-1]) == ("begin", "end")
    assert work.told.count("begin") == work.told.count("end") == 1


def test_what_may_be_tried_again_begins_anew_from_the_beginning() -> None:
    work = Script([None, AWAY, AWAY], begins=[None, None, AWAY])
    with capture_logs() as logs:
        one = lived(work)
        until(lambda: work.told.count("begin") == 4 and work.told[-1] == "step")
        assert one.trouble is not None and one.trouble.why == "the broker is away"
        one.stop()
    first = ["begin", "step", "step", "end", "begin", "step", "end", "begin", "end", "begin", "step"]
    assert work.told[: len(first)] == first
    assert [line["event"] for line in logs] == ["is starting again"], "the same failure is logged once"


def test_trouble_is_over_when_it_has_gone_well_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(life, "AGAIN", 0.2)
    work = Script([AWAY, None, AWAY])
    began = time.time()
    with capture_logs() as logs:
        one = lived(work)
        until(lambda: work.told.count("begin") == 3)
        found = one.trouble
        assert found is not None and began <= found.since <= time.time()
        until(lambda: one.trouble is None)
        until(lambda: logs[-1]["event"] == "has recovered")
        one.stop()


@pytest.mark.parametrize("error", [KeyError("a bug"), REFUSED])
@pytest.mark.parametrize("where", ["begin", "step"])
def test_anything_else_ends_the_process_and_is_logged_with_its_trace(where: str, error: Exception) -> None:
    work = Script([error]) if where == "step" else Script(begins=[error])
    ended = threading.Event()
    with capture_logs() as logs:
        one = lived(work, ended.set)
        assert ended.wait(10)
        one.join(10)
    assert one.failed and not one.alive
    assert work.told[-1] == "end"
    assert (logs[-1]["log_level"], logs[-1]["exc_info"]) == ("error", error)


def test_what_fails_while_it_stops_is_no_failure() -> None:
    work = Script()
    ended = threading.Event()

    def end() -> None:
        raise MillraceError(ErrorCode.INTERNAL, "closed already")

    work.end = end  # type: ignore[method-assign]
    one = lived(work, ended.set)
    until(lambda: "step" in work.told)
    one.stop()
    assert not one.failed and not ended.is_set()


def test_starting_twice_is_starting_once_and_a_stopped_one_stays_so() -> None:
    work = Script()
    one = lived(work)
    one.start()
    one.stop()
    one.start()
    assert not one.alive
    assert work.told.count("begin") == 1


PROCESS = """
import signal, sys, threading, time
import structlog
from millrace_service import Life, life
life.GRACE = 0.5
class Broken:
    name = "broken"
    stopping = threading.Event()
    def begin(self): pass
    def step(self): raise KeyError("a bug")
    def end(self): pass
if sys.argv[1] == "deaf":
    signal.signal(signal.SIGTERM, lambda *_: None)
Life(Broken(), structlog.get_logger("test")).start()
while True:
    time.sleep(0.1)
"""


@pytest.mark.parametrize(("how", "status"), [("usual", -signal.SIGTERM), ("deaf", 1)])
def test_the_process_ends_even_if_it_does_not_stop_by_itself(how: str, status: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROCESS, how], capture_output=True, text=True, timeout=60, check=False,
        env=dict(os.environ),
    )  # fmt: skip
    assert done.returncode == status
    assert "KeyError: 'a bug'" in done.stdout + done.stderr
