"""What was in work when the process ended is calculated apart if it happens again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from calc_svc.limits.note import APART_SECONDS, Note

ONE, OTHER = 7, 8
BEGIN_AND_DIE = """
import os, signal, sys
from pathlib import Path
from calc_svc.limits.note import Note

note = Note(Path(sys.argv[1]))
for uid in sys.argv[3].split():
    with note.in_work(int(uid), lambda: True):
        pass
jobs = [note.in_work(int(uid), lambda: True) for uid in sys.argv[2].split()]
for job in jobs:
    job.__enter__()
os.kill(os.getpid(), signal.SIGKILL)
"""


def end(folder: Path, *streams: int, done: str = "") -> None:
    """A process begins, is ``done`` with some, and ends while these are in work."""
    command = [sys.executable, "-c", BEGIN_AND_DIE, str(folder), " ".join(map(str, streams)), done]
    assert subprocess.run(command, check=False).returncode < 0


def always() -> bool:
    return True


def test_what_was_in_work_at_two_ends_is_calculated_apart(tmp_path: Path) -> None:
    end(tmp_path, ONE, OTHER)
    end(tmp_path, ONE, OTHER, done=str(OTHER))
    note = Note(tmp_path)
    assert note.is_apart(ONE)
    assert not note.is_apart(OTHER), "it was calculated in between"


def test_an_end_with_nothing_in_work_begins_anew(tmp_path: Path) -> None:
    end(tmp_path, ONE)
    end(tmp_path)
    end(tmp_path, ONE)
    assert not Note(tmp_path).is_apart(ONE)


def test_what_spark_does_not_outlive_stays_noted(tmp_path: Path) -> None:
    for _ in range(2):
        note = Note(tmp_path)
        assert not note.is_apart(ONE)
        with pytest.raises(RuntimeError), note.in_work(ONE, lambda: False):
            raise RuntimeError
    assert Note(tmp_path).is_apart(ONE)


def test_it_is_over_after_a_while_and_outlives_the_process(tmp_path: Path) -> None:
    now = 1_000.0
    Note(tmp_path, lambda: now).take_apart(ONE)
    note = Note(tmp_path, lambda: now)
    assert note.is_apart(ONE) and note.apart() == {ONE: now + APART_SECONDS}
    now += APART_SECONDS
    assert not note.is_apart(ONE) and not note.apart()


def test_a_file_that_is_damaged_is_none(tmp_path: Path) -> None:
    Note(tmp_path).take_apart(ONE)
    (tmp_path / "calc-offences.json").write_bytes(b"{")
    assert not Note(tmp_path).is_apart(ONE)


def test_more_jobs_than_places_go_on(tmp_path: Path) -> None:
    note = Note(tmp_path)
    jobs = [note.in_work(uid, always) for uid in range(200)]
    for job in jobs:
        job.__enter__()
    assert not note.is_alone(3)
    for job in jobs:
        job.__exit__(None, None, None)
    with note.in_work(3, always):
        assert note.is_alone(3)
