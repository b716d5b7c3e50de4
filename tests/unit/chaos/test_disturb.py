"""What chaos runs hold goes on in the end, whatever was killed meanwhile."""

from __future__ import annotations

from pathlib import Path

import psutil

from millrace.processes import Program, RunFolder, start

from ...chaos.disturb import Disturber
from ...chaos.schedule import Disturbance


def test_what_is_below_a_held_part_goes_on_though_the_part_is_killed(tmp_path: Path) -> None:
    place = RunFolder(tmp_path)
    root = start(place, Program("calc-svc", ("bash", "-c", "sleep 300 & echo $!; wait")))
    while not (below := root.children()):
        pass
    schedule = [Disturbance(0.0, "pause", "calc-svc", 0.4), Disturbance(0.2, "kill", "calc-svc")]
    disturber = Disturber(place, schedule, lambda _: None)
    try:
        disturber.run()
        assert (disturber.kills, disturber.pauses) == (1, 1)
        assert below[0].status() != psutil.STATUS_STOPPED
    finally:
        below[0].kill()
