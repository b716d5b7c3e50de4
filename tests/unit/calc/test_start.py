"""The order in which calc-svc starts: triggers are calculated before all is warm."""

from __future__ import annotations

import threading
from functools import partial

import pytest

from calc_svc.service import Start


class Home:
    """Notes what happens; what needs no JVM is done while Spark starts."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.loaded, self.began = threading.Event(), threading.Event()
        self.waiting: list[str] = []
        """What each look at what waits finds; behind them nothing waits."""
        told = partial(partial, self.seen.append)
        self.work = Start(self, self.loaded, self._begin, self._waits, told("queries"), told("warm"))

    def start(self) -> None:
        self.seen.append("spark")

    def warm_up(self) -> None:
        self.seen.append("warm up")

    def rehearse(self, stopping: threading.Event) -> None:
        assert stopping is self.work.stopping and not stopping.is_set()
        self.seen.append("rehearse")

    def _begin(self) -> None:
        self.seen.append("begin")
        self.began.set()

    def _waits(self) -> str:
        self.seen.append("look")
        return self.waiting.pop() if self.waiting else ""


def test_triggers_are_calculated_before_all_is_warm() -> None:
    home = Home()
    home.loaded.set()
    home.work.step()
    assert home.seen == ["spark", "begin", "look", "queries", "warm up", "warm", "rehearse"]
    assert home.work.stopping.is_set()


def test_triggers_that_wait_have_the_cores_first() -> None:
    home = Home()
    home.loaded.set()
    home.waiting = ["triggers", "no partition"]
    home.work.step()
    assert home.seen == ["spark", "begin", "look", "look", "look", "queries", "warm up", "warm", "rehearse"]


def test_users_do_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calc_svc.service.TRIGGERS_FIRST", 0.05)
    home = Home()
    home.loaded.set()
    home.waiting = ["triggers"] * 1_000
    home.work.step()
    assert home.seen[-4:] == ["queries", "warm up", "warm", "rehearse"] and len(home.waiting) > 900


def test_nothing_begins_before_the_catalog_is_read() -> None:
    home = Home()
    thread = threading.Thread(target=home.work.step)
    thread.start()
    assert not home.began.wait(0.2) and home.seen == ["spark"]
    home.loaded.set()
    thread.join()
    assert home.seen[1:] == ["begin", "look", "queries", "warm up", "warm", "rehearse"]


@pytest.mark.parametrize("loaded", [False, True])
def test_what_is_to_stop_does_not_begin(loaded: bool) -> None:
    home = Home()
    home.work.stopping.set()
    if loaded:
        home.loaded.set()
    home.work.step()
    assert home.seen == ["spark"]
