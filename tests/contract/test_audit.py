"""``make audit`` says what it could not look up."""

from __future__ import annotations

from typing import Any

from tests.audit import FOUND, UNKNOWN, verdict

GOOD: dict[str, Any] = {"name": "a", "version": "1.0", "vulns": []}
BAD: dict[str, Any] = GOOD | {"vulns": [{"id": "PYSEC-1", "fix_versions": ["1.1"]}]}
UNSEEN: dict[str, Any] = {"name": "b", "skip_reason": "not found"}


def test_a_package_is_good_if_it_was_looked_up() -> None:
    assert verdict([GOOD]) == (0, ["1 packages of requirements.lock: no known vulnerability"])


def test_a_vulnerable_one_is_named_with_the_version_that_is_not() -> None:
    status, lines = verdict([GOOD, BAD])
    assert (status, lines[0]) == (FOUND, "a 1.0: PYSEC-1, fixed in 1.1")
    assert verdict([BAD, UNSEEN])[0] == FOUND


def test_what_nobody_could_look_up_is_not_taken_for_good() -> None:
    for found in ([GOOD, UNSEEN], [UNSEEN], []):
        status, lines = verdict(found)
        assert status == UNKNOWN
        assert "could not be looked up" in lines[-1]
