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
        told = partial(partial, self.seen.append)
        self.work = Start(self, self.loaded, told("there"), self._begin, told("warm"))

    def start(self) -> None:
        self.seen.append("spark")

    def warm_up(self) -> None:
        self.seen.append("warm up")

    def _begin(self) -> None:
        self.seen.append("begin")
        self.began.set()


def test_triggers_are_calculated_before_all_is_warm() -> None:
    home = Home()
    home.loaded.set()
    home.work.step()
    assert home.seen == ["spark", "there", "begin", "warm up", "warm"]
    assert home.work.stopping.is_set()


def test_nothing_begins_before_the_catalog_is_read() -> None:
    home = Home()
    thread = threading.Thread(target=home.work.step)
    thread.start()
    assert not home.began.wait(0.2) and home.seen == ["spark", "there"]
    home.loaded.set()
    thread.join()
    assert home.seen[2:] == ["begin", "warm up", "warm"]


@pytest.mark.parametrize("loaded", [False, True])
def test_what_is_to_stop_does_not_begin(loaded: bool) -> None:
    home = Home()
    home.work.stopping.set()
    if loaded:
        home.loaded.set()
    home.work.step()
    assert home.seen == ["spark", "there"]
